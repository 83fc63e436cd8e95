// Requests to the server, its types and its errors.

export type State = "pending" | "running" | "completed" | "failed";

export interface Node {
  index: number;
  name: string;
  state: State;
  job?: string;
  pod?: string;
  host?: string;
  reason?: string;
  message?: string;
  restarts: number;
  exit_code?: number | null;
  started_at?: string | null;
  ended_at?: string | null;
}

export interface Task {
  task_id: string;
  name: string;
  status: State;
  created_at: string;
  updated_at: string;
  username: string;
  metadata: {
    namespace: string;
    backend?: string;
    num_nodes: number;
    succeeded_nodes: number;
    failed_nodes: number;
    running_nodes: number;
    pending_nodes: number;
    restarts?: number;
    note?: string;
    pipeline?: string;
    pipeline_name?: string;
    stage?: number;
    nodes?: Node[];
  };
}

export interface Problem {
  file?: string;
  line: number;
  column: number;
  path: string;
  message: string;
  hint?: string;
  severity?: string;
}

export interface Finding {
  rule: string;
  stage: string;
  what: string;
  then: string;
  nodes: number[];
}

export interface Verdict {
  summary: string;
  stages: Record<string, string>;
  findings: Finding[];
  not_readable: string[];
}

export interface NodeUsage {
  node: number;
  cpus: number;
  memory_bytes: number;
  cpus_asked: number | null;
  memory_bytes_asked: number | null;
  gpus_asked: number | null;
}

export interface Volume {
  volume_id: string;
  name: string;
  size: string;
  storage_class: string;
  access_modes: string[];
  status: string;
  reason?: string;
  created_at: string;
  username: string;
  metadata: { pvc_name: string; namespace: string };
}

export interface Machine {
  node: string;
  accelerator: string;
  resource: string;
  total: number;
  used: number | null;
  free: number | null;
  ready: boolean;
  users: Record<string, number>;
}

export interface Queue {
  name: string;
  namespace: string;
  cluster_queue: string;
  admitted: number;
  pending: number;
  stopped: string;
  pending_in_cluster_queue: number | null;
  resources: { flavor: string; resource: string; used: string; used_by_all: string | null; quota: string | null }[];
  waiting: { workload: string; position: number; priority: number; since: string; reason: string }[];
}

export interface ClusterEvent {
  time: string;
  type: string;
  reason: string;
  object: string;
  message: string;
  count: number;
}

export interface Whoami {
  user: string;
  groups: string[];
  namespace: string;
  all_namespaces: boolean;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    detail: string,
    readonly hint = "",
    readonly problems: Problem[] = [],
  ) {
    super(detail);
  }
}

type Query = Record<string, string | number | boolean | undefined>;

// The session is no cookie: browsers send cookies to every port of a host, and on loopback other
// ports belong to other users.
const SESSION = "kubectl-sky-session";

export function setSession(id: string | null): void {
  if (id === null) sessionStorage.removeItem(SESSION);
  else sessionStorage.setItem(SESSION, id);
}

export function sessionHeaders(): Record<string, string> {
  const id = sessionStorage.getItem(SESSION);
  return id ? { "X-Kubectl-Sky-Session": id } : {};
}

// A new tab has no session yet: it asks the other tabs of this origin for theirs.
export async function shareSession(): Promise<void> {
  const channel = new BroadcastChannel(SESSION);
  const answered = new Promise<void>((resolve) => {
    channel.onmessage = ({ data }: MessageEvent<string | null>) => {
      const id = sessionStorage.getItem(SESSION);
      if (data === null && id) channel.postMessage(id);
      if (data !== null && !id) setSession(data);
      resolve();
    };
  });
  if (sessionStorage.getItem(SESSION)) return;
  channel.postMessage(null);
  await Promise.race([answered, new Promise((resolve) => setTimeout(resolve, 200))]);
}

export function url(path: string, query: Query = {}): string {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

export function taskPath(id: string, rest = ""): string {
  return `/tasks/${encodeURIComponent(id)}${rest}`;
}

export async function errorOf(response: Response): Promise<ApiError> {
  let body: { detail?: unknown; hint?: string; problems?: Problem[] } = {};
  try {
    body = await response.json();
  } catch {
    // a proxy's error page; the status has to do
  }
  const detail = typeof body.detail === "string" ? body.detail : `${response.status} ${response.statusText}`.trim();
  return new ApiError(response.status, detail, body.hint, body.problems);
}

let onUnauthorized = () => {};

export function whenUnauthorized(action: () => void): void {
  onUnauthorized = action;
}

export function reportUnauthorized(error: unknown): void {
  if (error instanceof ApiError && error.status === 401) onUnauthorized();
}

async function send(method: string, target: string, options: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(target, {
      ...options,
      method,
      credentials: "same-origin",
      headers: { Accept: "application/json", ...sessionHeaders(), ...options.headers },
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "cannot reach the server", "check that it is running");
  }
  if (!response.ok) {
    const error = await errorOf(response);
    reportUnauthorized(error);
    throw error;
  }
  return response;
}

export async function request<T>(method: string, target: string, options: RequestInit = {}): Promise<T> {
  const response = await send(method, target, options);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

// Save a file of the server: a plain link would not send the session.
export async function download(target: string, name: string): Promise<void> {
  const response = await send("GET", target, { headers: { Accept: "text/plain" } });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal) =>
  request<T>("GET", url(path, query), { signal });

export const post = <T>(path: string, query: Query = {}, body?: unknown, signal?: AbortSignal) =>
  request<T>("POST", url(path, query), {
    signal,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });

export const postYaml = <T>(path: string, query: Query, text: string, options: RequestInit = {}) =>
  request<T>("POST", url(path, query), {
    ...options,
    headers: { "Content-Type": "application/yaml", ...options.headers },
    body: text,
  });
