// Requests to the server, its types and its errors.

import type * as models from "./models";
import type { Problem } from "./models";

export type {
  AcceleratorNode,
  ClusterEvent,
  Diagnosis as Verdict,
  Finding,
  Goodput,
  GpuHoursList,
  NodeUsage,
  Problem,
  Queue,
  Quota,
  Service,
  TaskGoodput,
  Timeline,
  Usage,
  UsageHistory,
  Volume,
  WhoAmI as Whoami,
} from "./models";

export type State = "pending" | "running" | "completed" | "failed";
export type Node = models.Node & { state: State };
export type Pipeline = models.Pipeline;
export type Task = models.Task & { status: State; metadata: { nodes?: Node[] } };

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

export type Query = Record<string, string | number | boolean | undefined>;

// The session is no cookie: browsers send cookies to every port of a host, and on loopback other
// ports belong to other users.
const SESSION = "kubectl-sky-session";

export function setSession(id: string | null): void {
  if (id === null) sessionStorage.removeItem(SESSION);
  else sessionStorage.setItem(SESSION, id);
}

// A proxy that logs browsers in sends their token: then the id only names the streams of the browser.
const PROXIED = "proxied-";

export const behindProxy = () => sessionStorage.getItem(SESSION)?.startsWith(PROXIED) ?? false;

export function nameStreams(): void {
  if (!sessionStorage.getItem(SESSION)) setSession(PROXIED + crypto.getRandomValues(new Uint32Array(4)).join("-"));
}

// Log out: of oauth2-proxy first, so that the other tabs, whose streams end, do not get in again.
export async function logOut(): Promise<void> {
  const proxied = behindProxy();
  const left = proxied ? await fetch("/oauth2/sign_out", { redirect: "manual" }).catch(() => null) : null;
  await post("/logout").catch(() => {});
  if (!proxied) setSession(null);
  else if (left?.type !== "opaqueredirect") location.assign("/oauth2/sign_out"); // and see why
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

// The namespace of requests that name none: the choice of the page.
let chosen = "";

export function setNamespace(name: string): void {
  chosen = name;
}

export function url(path: string, query: Query = {}): string {
  const all: Query = { ...query, namespace: query.namespace || chosen };
  const entries = Object.entries(all).filter(([, value]) => value !== undefined && value !== "" && value !== false);
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

// The answer to the deletion of a task or service: what still exists, and what keeps it.
export interface Deleted {
  remaining?: string[];
}

export const stillDeleting = (remaining: string[]) => `Still being deleted: ${remaining.join("; ")}`;

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
