// The lines of a log in memory: bounded, searchable, cheap to add to.
import { logText } from "./format";

export interface Line {
  rank: number;
  node: string;
  time: string;
  text: string;
}

export const MAX_LINES = 200_000;
const DROPPED_AT_ONCE = 20_000;

export class LogLines {
  lines: Line[] = [];
  matches: number[] = []; // indexes of the lines that match the search
  dropped = 0;
  longest = 0;
  private needle = "";

  add(line: Line): void {
    const shown = { ...line, text: logText(line.text) };
    if (this.lines.length >= MAX_LINES) this.drop();
    this.longest = Math.max(this.longest, shown.text.length);
    this.lines.push(shown);
    if (this.needle && matches(shown, this.needle)) this.matches.push(this.lines.length - 1);
  }

  search(text: string): void {
    this.needle = text.toLowerCase();
    this.matches = [];
    if (!this.needle) return;
    this.lines.forEach((line, index) => {
      if (matches(line, this.needle)) this.matches.push(index);
    });
  }

  private drop(): void {
    this.lines.splice(0, DROPPED_AT_ONCE);
    this.dropped += DROPPED_AT_ONCE;
    this.matches = this.matches.map((index) => index - DROPPED_AT_ONCE).filter((index) => index >= 0);
  }
}

function matches(line: Line, needle: string): boolean {
  return line.text.toLowerCase().includes(needle);
}

// A text in parts: every second one matches the search.
export function split(text: string, needle: string): string[] {
  if (!needle) return [text];
  const lower = text.toLowerCase();
  // Some characters change their length in lower case: then positions would be wrong.
  if (lower.length !== text.length) return [text];
  const parts: string[] = [];
  let start = 0;
  for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, start)) {
    parts.push(text.slice(start, at), text.slice(at, at + needle.length));
    start = at + needle.length;
  }
  return [...parts, text.slice(start)];
}
