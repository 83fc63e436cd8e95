// Small parts that several pages use.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, type Query, type State, type Task, url, type Whoami } from "./api";
import { plural } from "./format";
import type { Namespaces } from "./list";
import { href, type TaskScope } from "./route";
import { mayRetry } from "./stream";

export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#2563eb" />
      <path d="M10.5 22.5a4.5 4.5 0 0 1-.6-8.96 6.5 6.5 0 0 1 12.4-.9 5 5 0 0 1-.8 9.86z" fill="#fff" />
    </svg>
  );
}

// The heading of a page: the title of the window, and where the focus goes after a change of page.
export function Title({ text, children }: { text: string; children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${text} · kubectl sky`;
  }, [text]);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  return (
    <h1 tabIndex={-1} ref={heading}>
      {children ?? text}
    </h1>
  );
}

export function Badge({ state }: { state: State | string }) {
  return <span class={`badge ${state}`}>{state}</span>;
}

const PROGRESS: [keyof Task["metadata"], State][] = [
  ["succeeded_nodes", "completed"],
  ["failed_nodes", "failed"],
  ["running_nodes", "running"],
  ["pending_nodes", "pending"],
];

export function NodeProgress({ task }: { task: Task }) {
  const details = task.metadata;
  const counts = PROGRESS.map(([field, state]) => [state, Number(details[field] ?? 0)] as const);
  const total = details.num_nodes || 1;
  const label = counts
    .filter(([, count]) => count)
    .map(([state, count]) => `${count} ${state}`)
    .join(", ");
  return (
    <span class="progress">
      <span class="segments" role="img" aria-label={`${plural(details.num_nodes, "node")}: ${label}`}>
        {counts.map(([state, count]) =>
          count ? <span key={state} class={`segment ${state}`} style={{ width: `${(100 * count) / total}%` }} /> : null,
        )}
      </span>
      <span class="number">
        {details.succeeded_nodes + details.running_nodes}/{details.num_nodes}
      </span>
    </span>
  );
}

interface BarProps {
  used: number;
  total: number;
  label: string;
  plain?: boolean; // a full bar is no warning
}

export function Bar({ used, total, label, plain = false }: BarProps) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  return (
    <span
      class={`meter ${share >= 0.9 && !plain ? "full" : ""}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={Math.min(used, total)}
      aria-valuetext={label}
    >
      <span style={{ width: `${100 * share}%` }} />
    </span>
  );
}

// Commands and requests, the page that does the same, and what the link says.
const PAGES: [said: RegExp, page: string, rest: string[], title: string][] = [
  [/^logs ([-a-z0-9]+)$|^GET \/tasks\/([-a-z0-9]+)\/logs$/, "tasks", ["logs"], "the logs"],
  [/^(?:status |doctor |GET \/tasks\/)([-a-z0-9]+)$/, "tasks", [], "the page of the task"],
  [/^stop ([-a-z0-9]+)$|^POST \/tasks\/([-a-z0-9]+)\/stop$/, "tasks", [], "Stop or Delete on its page"],
  [/^serve logs ([-a-z0-9]+)$/, "services", ["logs"], "the logs"],
  [/^serve /, "services", [], "the page Services"],
  [/^volumes (?:list|create)|^GET \/volumes/, "volumes", [], "the page Volumes"],
  [/^(?:gpus|queues|usage|users show)|^GET \/(?:gpus|queues|quotas)/, "cluster", [], "the page GPUs and queues"],
  [/^list|^GET \/tasks/, "tasks", [], "the page Tasks"],
];

// What a page of the dashboard does, too, is a link to it.
export function withLinks(text: string, scope: TaskScope = {}) {
  return text.split(/[`"](kubectl sky [^`"]+|(?:GET|POST) [^`"]+)[`"]/).map((part, index) => {
    if (index % 2 === 0) return part;
    const said = part.replace(/^kubectl sky /, "");
    const found = PAGES.find(([pattern]) => pattern.test(said));
    if (!found) return <code key={index}>{part}</code>;
    const [pattern, page, rest, title] = found;
    const id = pattern.exec(said)?.slice(1).find(Boolean);
    return (
      <a key={index} href={href(page, id ? [id, ...rest] : [], id ? scope : {})}>
        {title}
      </a>
    );
  });
}

export function ErrorNote({ error, quiet = false }: { error: unknown; quiet?: boolean }) {
  const message = error instanceof Error ? error.message : String(error);
  const hint = error instanceof ApiError ? error.hint : "";
  const problems = error instanceof ApiError ? error.problems : [];
  return (
    <div class={quiet ? "note" : "note error"} role={quiet ? undefined : "alert"}>
      <p>{message}</p>
      {problems.length > 1 && (
        <ul>
          {problems.map((problem) => (
            <li key={problem.message}>{problem.message}</li>
          ))}
        </ul>
      )}
      {hint && <p class="hint">{withLinks(hint)}</p>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

interface DialogProps {
  title: string;
  children: ComponentChildren;
  onClose(): void;
}

// A native modal dialog: it keeps the focus, and Escape closes it.
export function Dialog({ title, children, onClose }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current!;
    const previous = document.activeElement as HTMLElement | null;
    element.showModal();
    return () => {
      element.close();
      previous?.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onCancel={onClose}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  text: string;
  action: string;
  run(): Promise<void>;
  onClose(): void;
}

export function Confirm({ title, text, action, run, onClose }: ConfirmProps) {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const confirm = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await run();
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={confirm}>
        <p>{text}</p>
        {error ? <ErrorNote error={error} /> : null}
        <div class="actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={busy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

let announceText: (text: string) => void = () => {};

// Show a message for a moment, and have screen readers read it.
export function announce(text: string): void {
  announceText(text);
}

export function Announcements() {
  const [text, setText] = useState("");
  useEffect(() => {
    let timer = 0;
    announceText = (message) => {
      setText(message);
      clearTimeout(timer);
      timer = window.setTimeout(() => setText(""), 6000);
    };
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`toast ${text && "shown"}`} role="status">
      {text}
    </div>
  );
}

interface CheckProps {
  label: string;
  checked: boolean;
  onChange(on: boolean): void;
}

export function Check({ label, checked, onChange }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={() => onChange(!checked)} />
      {label}
    </label>
  );
}

export function AllUsers(props: Omit<CheckProps, "label">) {
  return <Check label="All users" {...props} />;
}

interface NamespaceChoiceProps {
  user: Whoami;
  chosen: Namespaces;
  onChange(namespaces: Namespaces): void;
}

// Who has one namespace has no choice.
export function NamespaceChoice({ user, chosen, onChange }: NamespaceChoiceProps) {
  if (!user.all_namespaces && user.namespaces.length < 2) return null;
  return (
    <label class="select">
      <span class="visually-hidden">Namespaces</span>
      <select value={chosen} onChange={(event) => onChange(event.currentTarget.value as Namespaces)}>
        <option value="">This namespace</option>
        <option value="mine">My namespaces</option>
        {user.all_namespaces && <option value="all">All namespaces</option>}
      </select>
    </label>
  );
}

// What the server answers now, and at an interval while the page is visible, until an error that a retry cannot help.
// Without a path, nothing is asked.
export function usePolled<T>(path: string, query: Query = {}, seconds = 15, round = 0): [T | null, unknown] {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<unknown>(null);
  const target = path && url(path, query);
  useEffect(() => {
    if (!path) return setValue(null);
    const controller = new AbortController();
    let timer = 0;
    const load = async () => {
      try {
        if (!document.hidden) setValue(await get<T>(path, query, controller.signal));
        setError(null);
      } catch (problem) {
        if (controller.signal.aborted) return;
        setError(problem);
        if (!mayRetry(problem as Error)) return;
      }
      timer = window.setTimeout(load, seconds * 1000);
    };
    void load();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [target, round, seconds]);
  return [value, error];
}

// The size of an element, as it changes; null until it is known.
export function useSize(element: RefObject<HTMLElement | null>): DOMRectReadOnly | null {
  const [size, setSize] = useState<DOMRectReadOnly | null>(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setSize(entry!.contentRect));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return size;
}

// Render again at an interval, for ages that grow.
export function useClock(seconds = 10): void {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
  } catch {
    announce("The browser does not allow copying here");
  }
}
