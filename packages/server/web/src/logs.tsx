// The logs of a task or service: live, by rank, of any length. Only the visible lines are in the page.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, download, get, type Service, type Task, taskPath, url } from "./api";
import { type Line, LogLines, split } from "./loglines";
import { Empty, ErrorNote, Title } from "./parts";
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

export function Logs({ of, id, scope, rank, byNode, search: first }: LogsProps) {
  const [error, setError] = useState<Error | null>(null);
  const [note, setNote] = useState("");
  const [status, setStatus] = useState<"connecting" | "live" | "reconnecting" | "disconnected" | "complete">(
    "connecting",
  );
  const [, setVersion] = useState(0);
  const [search, setSearch] = useState(first);
  const [only, setOnly] = useState(false);
  const [times, setTimes] = useState(false);
  const [following, setFollowing] = useState(true);
  const [current, setCurrent] = useState(-1); // which match is selected
  const log = useMemo(() => new LogLines(), []);
  const pane = useRef<Pane | null>(null);

  const [about, setAbout] = useState({ name: id, nodes: 1 });
  const word = of === "tasks" ? "node" : "replica";
  const path = of === "tasks" ? taskPath(id, "/logs") : `/services/${encodeURIComponent(id)}/logs`;
  const which = of === "tasks" ? { rank, by_node: byNode } : { replica: rank };

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

  useEffect(() => {
    let frame = 0;
    const changed = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        setVersion((version) => version + 1);
      });
    };
    const stop = follow(url(path, { ...scope, ...which, follow: true }), {
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
  }, [id, scope.namespace, rank]);

  const query = { ...scope, rank, by_node: byNode ? "true" : undefined, search };
  useEffect(() => {
    history.replaceState(null, "", href(of, [id, "logs"], query)); // no step of the history for each key
    log.search(search);
    setCurrent(-1);
    setVersion((version) => version + 1);
  }, [search]);

  const select = (step: number) => {
    if (!log.matches.length) return;
    const next = (current + step + log.matches.length) % log.matches.length;
    setCurrent(next);
    setFollowing(false);
    pane.current?.show(only ? next : log.matches[next]!);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      select(event.shiftKey || (current < 0 && following) ? -1 : 1);
    } else if (event.key === "Escape") setSearch("");
  };
  const { name, nodes } = about;
  const shown = only && search ? log.matches : null;
  const fatal = error instanceof ApiError && !mayRetry(error);
  const save = () => {
    const target = url(path, { ...scope, ...which, follow: "false" });
    download(target, `${name}-${id}${rank && `-${word}-${rank}`}.log`).catch(setError);
  };
  return (
    <div class="logs">
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
          <button type="button" onClick={save}>
            Download
          </button>
        </div>
      </div>
      <div class="toolbar" role="search">
        <label class="select">
          <span class="visually-hidden">{word === "node" ? "Node" : "Replica"}</span>
          <select
            value={rank}
            onChange={(event) => go(of, [id, "logs"], { ...query, rank: event.currentTarget.value })}
          >
            <option value="">All {word}s</option>
            {Array.from({ length: nodes }, (_, index) => (
              <option key={index} value={String(index)}>
                {word}-{index}
              </option>
            ))}
          </select>
        </label>
        <input
          type="search"
          aria-label="Search in the logs"
          placeholder="Search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
          onKeyDown={keys}
        />
        {of === "tasks" && nodes > 1 && !rank && (
          <label class="check">
            <input
              type="checkbox"
              checked={byNode}
              onChange={() => go("tasks", [id, "logs"], { ...query, by_node: byNode ? undefined : "true" })}
            />
            By node
          </label>
        )}
        {search && (
          <span class="found">
            <span role="status" class="number">
              {log.matches.length
                ? `${current < 0 ? "" : `${current + 1} of `}${log.matches.length.toLocaleString("en")}`
                : "no match"}
            </span>
            <button type="button" class="small" aria-label="Previous match" onClick={() => select(-1)}>
              ↑
            </button>
            <button type="button" class="small" aria-label="Next match" onClick={() => select(1)}>
              ↓
            </button>
          </span>
        )}
        <label class="check">
          <input type="checkbox" checked={only} onChange={() => setOnly(!only)} />
          Matches only
        </label>
        <label class="check">
          <input type="checkbox" checked={times} onChange={() => setTimes(!times)} />
          Timestamps
        </label>
        <label class="check">
          <input type="checkbox" checked={following} onChange={() => setFollowing(!following)} />
          Follow
        </label>
        <span class="muted number">{log.lines.length.toLocaleString("en")} lines</span>
      </div>
      {error && (fatal || status === "connecting") && <ErrorNote error={error} />}
      {note && <p class="note">{note}</p>}
      {log.dropped > 0 && (
        <p class="note">
          The first {log.dropped.toLocaleString("en")} lines are not kept in the page; the download has all lines.
        </p>
      )}
      {!log.lines.length && !fatal ? (
        <Empty title={status === "complete" ? "The log is empty" : "No log lines yet"} />
      ) : (
        <LogPane
          ref={pane}
          log={log}
          indexes={shown}
          needle={search.toLowerCase()}
          times={times}
          prefix={!rank && nodes > 1}
          selected={current < 0 ? -1 : (log.matches[current] ?? -1)}
          following={following}
          onFollowing={setFollowing}
        />
      )}
    </div>
  );
}

interface Pane {
  show(index: number): void;
}

interface PaneProps {
  ref: { current: Pane | null };
  log: LogLines;
  indexes: number[] | null;
  needle: string;
  times: boolean;
  prefix: boolean;
  selected: number;
  following: boolean;
  onFollowing(on: boolean): void;
}

function LogPane({ ref, log, indexes, needle, times, prefix, selected, following, onFollowing }: PaneProps) {
  const element = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const count = indexes ? indexes.length : log.lines.length;

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setHeight(entry!.contentRect.height));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
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
  const rows = [];
  for (let position = first; position < last; position += 1) {
    const index = indexes ? indexes[position]! : position;
    const line = log.lines[index];
    if (line) {
      rows.push(
        <Row
          key={index + log.dropped}
          line={line}
          y={position * ROW}
          needle={needle}
          times={times}
          prefix={prefix}
          selected={index === selected}
        />,
      );
    }
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
