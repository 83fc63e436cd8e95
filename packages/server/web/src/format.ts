// Times, amounts and log text as people read them.
import type { Task } from "./api";

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

// A span of seconds in kubectl's form: 45s, 5m, 3h20m, 2d.
export function span(seconds: number): string {
  let rest = Math.max(0, Math.floor(seconds));
  if (rest < 120) return `${rest}s`;
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count}${unit}`);
    if (parts.length && (parts.length === 2 || count >= 10 || unit === "m")) break;
  }
  return parts.join("");
}

export function age(time: string | null | undefined, now = Date.now()): string {
  const start = Date.parse(time ?? "");
  return Number.isNaN(start) ? "" : span((now - start) / 1000);
}

export function duration(start: string | null | undefined, end: string | null | undefined): string {
  return age(start, end ? Date.parse(end) : Date.now());
}

export function localTime(time: string | null | undefined): string {
  const date = new Date(time ?? "");
  return Number.isNaN(date.getTime())
    ? ""
    : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function bytes(amount: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = amount;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const FACTORS: Record<string, number> = {
  "": 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

// The number of a Kubernetes quantity such as 500m or 16Gi; null if it is none.
export function quantity(text: string | null): number | null {
  const match = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]{0,2})$/.exec(text?.trim() ?? "");
  const factor = FACTORS[match?.[2] ?? ""];
  const value = Number(match?.[1]);
  return match && factor !== undefined && Number.isFinite(value) ? value * factor : null;
}

// A quantity of a resource, in bytes if it is memory or storage.
export function amount(resource: string, text: string | null): string {
  const value = quantity(text);
  if (value === null) return text || "?";
  return /(^|\.)(memory|storage|ephemeral-storage)$/.test(resource)
    ? bytes(value)
    : String(Math.round(value * 100) / 100);
}

// What each node of a task requests, without GPUs.
export function sizes({ metadata: { resources } }: Task): string {
  const { cpus, memory } = resources;
  const cores = quantity(cpus ?? null);
  const size = quantity(memory ?? null);
  return [cores !== null && `${cores} CPU`, size !== null && bytes(size)].filter(Boolean).join(", ");
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

// Ranks as ranges: node-0 to node-3, node-7.
export function ranges(values: number[], word: string): string {
  const spans: [number, number][] = [];
  for (const value of [...values].sort((a, b) => a - b)) {
    const last = spans.at(-1);
    if (last && value === last[1] + 1) last[1] = value;
    else spans.push([value, value]);
  }
  return spans.map(([from, to]) => (from === to ? `${word}${from}` : `${word}${from} to ${word}${to}`)).join(", ");
}

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: they are what is removed
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: see above
const BIDI = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const LONGEST_LINE = 5_000;

// A log line as a terminal would leave it: no escape sequences, and what a progress bar showed last.
export function logText(text: string): string {
  let line = text.replace(/\r+$/, "");
  line = line.slice(line.lastIndexOf("\r") + 1);
  line = line.replace(ESCAPES, "").replace(CONTROLS, "\u00b7").replace(BIDI, "\u00b7");
  if (line.length <= LONGEST_LINE) return line;
  return `${line.slice(0, LONGEST_LINE)} … ${line.length - LONGEST_LINE} more characters; the download has all`;
}
