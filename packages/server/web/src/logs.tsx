// The logs of a task or service: live, by rank, of any length. Only the visible lines are in the page.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, download, get, type Service, type Task, taskPath, url } from "./api";
import { type Line, LogLines, split } from "./loglines";
import { Check, Empty, ErrorNote, Title, useSize } from "./parts";
import { go, href, type TaskScope } from "./route";
import { follow, lostAs, mayRetry } from "./stream";
import { Live } from "./tasks";

const ROW = 20; // pixels, as in style.css
const MARGIN = 20; // rows above and below the window

interface LogsProps {
  of: "tasks" | "services";
  id: string;
  scope: TaskScope;
  rank: string;
  byNode: boolean;
  search: string; // when the page was opened
}

// What the reader looks at.
interface View {
  search: string;
  only: boolean; // lines that match
  times: boolean;
  following: boolean;
  current: number; // which match is selected; -1: none
}

export function Logs(props: LogsProps) {
  const { of, id, scope, rank, byNode, search: first } = props;
  const [view, setView] = useState<View>({ search: first, only: false, times: false, following: true, current: -1 });
  const change = (changes: Partial<View>) => setView((before) => ({ ...before, ...changes }));
  const { search, current } = view;
  const pane = useRef<Pane | null>(null);
  const { name, nodes } = useName(of, id, scope);
  const word = of === "tasks" ? "node" : "replica";

  const { log, status, note, error, setError, draw } = useLog(logUrl(props, "true"));
  const query = { ...scope, rank, by_node: byNode ? "true" : undefined, search };
  const open = (changes: typeof query) => go(of, [id, "logs"], changes);
  useEffect(() => {
    history.replaceState(null, "", href(of, [id, "logs"], query)); // no step of the history for each key
    log.search(search);
    change({ current: -1 });
    draw();
  }, [search]);

  const fatal = error instanceof ApiError && !mayRetry(error);
  const select = (step: number) => {
    if (!log.matches.length) return;
    const next = (current + step + log.matches.length) % log.matches.length;
    change({ current: next, following: false });
    pane.current?.show(view.only ? next : log.matches[next]!);
  };
  const save = () => download(logUrl(props, "false"), `${name}-${id}${rank && `-${word}-${rank}`}.log`).catch(setError);
  return (
    <div class="logs">
      <Heading of={of} id={id} scope={scope} name={name} status={status} onSave={save} />
      <div class="toolbar" role="search">
        <RankChoice word={word} count={nodes} rank={rank} onChange={(chosen) => open({ ...query, rank: chosen })} />
        <SearchField view={view} onChange={change} onSelect={select} />
        {of === "tasks" && nodes > 1 && !rank && (
          <Check
            label="By node"
            checked={byNode}
            onChange={(on) => open({ ...query, by_node: on ? "true" : undefined })}
          />
        )}
        {search && <Matches log={log} current={current} onSelect={select} />}
        <ViewChecks view={view} onChange={change} />
        <span class="muted number">{log.lines.length.toLocaleString("en")} lines</span>
      </div>
      {error && (fatal || status === "connecting") && <ErrorNote error={error} />}
      <Notes note={note} dropped={log.dropped} />
      {!log.lines.length && !fatal ? (
        <Empty title={status === "complete" ? "The log is empty" : "No log lines yet"} />
      ) : (
        <LogPane
          ref={pane}
          log={log}
          view={view}
          prefix={!rank && nodes > 1}
          onFollowing={(on) => change({ following: on })}
        />
      )}
    </div>
  );
}

function logUrl({ of, id, scope, rank, byNode }: LogsProps, following: "true" | "false"): string {
  if (of === "tasks") return url(taskPath(id, "/logs"), { ...scope, rank, by_node: byNode, follow: following });
  return url(`/services/${encodeURIComponent(id)}/logs`, { ...scope, replica: rank, follow: following });
}

// The name of a task or service, and of how many nodes or replicas there are logs.
function useName(of: LogsProps["of"], id: string, scope: TaskScope): { name: string; nodes: number } {
  const [about, setAbout] = useState({ name: id, nodes: 1 });
  useEffect(() => {
    const read =
      of === "tasks"
        ? get<Task>(taskPath(id), scope).then(({ name, metadata }) => ({ name, nodes: metadata.num_nodes }))
        : get<{ services: Service[] }>("/services", scope).then(({ services }) => ({
            name: id,
            nodes: services.find(({ name }) => name === id)?.pods.length ?? 1,
          }));
    read.then(setAbout, () => {});
  }, [id, scope.namespace]);
  return about;
}

type Status = "connecting" | "live" | "reconnecting" | "disconnected" | "complete";

// Follow a log from its first line. It is drawn once a frame, however many lines arrive.
function useLog(target: string) {
  const log = useMemo(() => new LogLines(), []);
  const [status, setStatus] = useState<Status>("connecting");
  const [note, setNote] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [, setVersion] = useState(0);
  const draw = () => setVersion((version) => version + 1);

  useEffect(() => {
    let frame = 0;
    const changed = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
    };
    const stop = follow(target, {
      onConnected: () => {
        setStatus("live");
        setError(null);
      },
      onInterrupted: (problem) => {
        setStatus(lostAs(problem));
        setError(problem);
      },
      onEvent: (name, data) => {
        if (name === "line") log.add(data as Line);
        if (name === "note") setNote((data as { text: string }).text);
        if (name === "end") setStatus("complete");
        changed();
      },
    });
    return () => {
      stop();
      cancelAnimationFrame(frame);
    };
  }, []); // another log is another page: main.tsx gives each a key
  return { log, status, note, error, setError, draw };
}

interface HeadingProps {
  of: LogsProps["of"];
  id: string;
  scope: TaskScope;
  name: string;
  status: Status;
  onSave(): void;
}

function Heading({ of, id, scope, name, status, onSave }: HeadingProps) {
  return (
    <>
      <nav aria-label="Breadcrumb" class="crumbs">
        {of === "tasks" ? (
          <>
            <a href={href("tasks")}>Tasks</a> / <a href={href("tasks", [id], scope)}>{name}</a>
          </>
        ) : (
          <>
            <a href={href("services")}>Services</a> / {name}
          </>
        )}
      </nav>
      <div class="heading">
        <Title text={`Logs of ${name}`}>Logs</Title>
        {status === "live" ? <Live interrupted={null} /> : <span class={`live ${status}`}>{status}</span>}
        <div class="heading-actions">
          <button type="button" onClick={onSave}>
            Download
          </button>
        </div>
      </div>
    </>
  );
}

interface RankChoiceProps {
  word: string;
  count: number;
  rank: string;
  onChange(rank: string): void;
}

function RankChoice({ word, count, rank, onChange }: RankChoiceProps) {
  return (
    <label class="select">
      <span class="visually-hidden">{word === "node" ? "Node" : "Replica"}</span>
      <select value={rank} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">All {word}s</option>
        {Array.from({ length: count }, (_, index) => (
          <option key={index} value={String(index)}>
            {word}-{index}
          </option>
        ))}
      </select>
    </label>
  );
}

interface SearchFieldProps {
  view: View;
  onChange(changes: Partial<View>): void;
  onSelect(step: number): void;
}

// Enter selects the next match, or first the last one of a log that is followed; Shift+Enter the previous one.
function SearchField({ view, onChange, onSelect }: SearchFieldProps) {
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      onSelect(event.shiftKey || (view.current < 0 && view.following) ? -1 : 1);
    } else if (event.key === "Escape") onChange({ search: "" });
  };
  return (
    <input
      type="search"
      aria-label="Search in the logs"
      placeholder="Search"
      value={view.search}
      onInput={(event) => onChange({ search: event.currentTarget.value })}
      onKeyDown={keys}
    />
  );
}

function Matches({ log, current, onSelect }: { log: LogLines; current: number; onSelect(step: number): void }) {
  const count = log.matches.length.toLocaleString("en");
  const position = current < 0 ? "" : `${current + 1} of `;
  return (
    <span class="found">
      <span role="status" class="number">
        {log.matches.length ? `${position}${count}` : "no match"}
      </span>
      <button type="button" class="small" aria-label="Previous match" onClick={() => onSelect(-1)}>
        ↑
      </button>
      <button type="button" class="small" aria-label="Next match" onClick={() => onSelect(1)}>
        ↓
      </button>
    </span>
  );
}

function ViewChecks({ view, onChange }: { view: View; onChange(changes: Partial<View>): void }) {
  return (
    <>
      <Check label="Matches only" checked={view.only} onChange={(on) => onChange({ only: on })} />
      <Check label="Timestamps" checked={view.times} onChange={(on) => onChange({ times: on })} />
      <Check label="Follow" checked={view.following} onChange={(on) => onChange({ following: on })} />
    </>
  );
}

function Notes({ note, dropped }: { note: string; dropped: number }) {
  return (
    <>
      {note && <p class="note">{note}</p>}
      {dropped > 0 && (
        <p class="note">
          The first {dropped.toLocaleString("en")} lines are not kept in the page; the download has all lines.
        </p>
      )}
    </>
  );
}

interface Pane {
  show(index: number): void;
}

interface PaneProps {
  ref: { current: Pane | null };
  log: LogLines;
  view: View;
  prefix: boolean;
  onFollowing(on: boolean): void;
}

function LogPane({ ref, log, view, prefix, onFollowing }: PaneProps) {
  const { search, only, times, following, current } = view;
  const element = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const height = useSize(element)?.height ?? 600;
  const indexes = only && search ? log.matches : null;
  const count = indexes ? indexes.length : log.lines.length;

  ref.current = {
    show: (index) => element.current?.scrollTo({ top: Math.max(0, index * ROW - height / 2) }),
  };
  useLayoutEffect(() => {
    const pane = element.current!;
    if (following) pane.scrollTop = pane.scrollHeight;
  });
  const scrolled = () => {
    const pane = element.current!;
    const atEnd = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 2 * ROW;
    // Scrolling up is a wish to read; only the reader turns following on again, or the end does.
    if (pane.scrollTop < top - 2) onFollowing(false);
    else if (atEnd && pane.scrollTop > top) onFollowing(true);
    setTop(pane.scrollTop);
  };
  const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
  const last = Math.min(count, Math.ceil((top + height) / ROW) + MARGIN);
  const needle = search.toLowerCase();
  const rows = [];
  for (let position = first; position < last; position += 1) {
    const index = indexes ? indexes[position]! : position;
    const line = log.lines[index];
    const selected = current >= 0 && index === log.matches[current];
    const props = { y: position * ROW, needle, times, prefix, selected };
    if (line) rows.push(<Row key={index + log.dropped} line={line} {...props} />);
  }
  const width = log.longest + (times ? 26 : 0) + (prefix ? 12 : 0) + 2;
  return (
    <div
      class="log-pane"
      ref={element}
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label="Log lines"
      onScroll={scrolled}
    >
      <div class="log-space" style={{ height: `${count * ROW}px`, minWidth: `min(${width}ch, 40000px)` }}>
        {rows}
      </div>
    </div>
  );
}

interface RowProps {
  line: Line;
  y: number;
  needle: string;
  times: boolean;
  prefix: boolean;
  selected: boolean;
}

function Row({ line, y, needle, times, prefix, selected }: RowProps) {
  const parts = split(line.text, needle);
  return (
    <div class={selected ? "log-line selected" : "log-line"} style={{ top: `${y}px` }}>
      {times && <span class="log-time">{line.time.replace("T", " ").slice(0, 23)} </span>}
      {prefix && <span class={`log-node rank-${line.rank % 6}`}>{line.node} | </span>}
      <bdi>{parts.map((part, index) => (index % 2 ? <mark key={index}>{part}</mark> : part))}</bdi>
    </div>
  );
}
