// Server-Sent Events with fetch: EventSource cannot report a status or resume after an error.
import { createParser } from "eventsource-parser";
import { ApiError, errorOf, reportUnauthorized, sessionHeaders } from "./api";

export interface StreamHandlers {
  onEvent(name: string, data: unknown): void;
  onConnected?(): void;
  onInterrupted?(error: Error): void;
}

const FIRST_DELAY = 500;
const LONGEST_DELAY = 15_000;

// Follow a stream until an `end` event, an error that a retry cannot help, or the returned stop().
export function follow(target: string, handlers: StreamHandlers, final: string[] = ["end"]): () => void {
  const controller = new AbortController();
  void run(target, handlers, final, controller.signal);
  return () => controller.abort();
}

async function run(target: string, handlers: StreamHandlers, final: string[], signal: AbortSignal): Promise<void> {
  let lastId = "";
  let delay = FIRST_DELAY;
  while (!signal.aborted) {
    try {
      const response = await fetch(target, {
        signal,
        credentials: "same-origin",
        cache: "no-store",
        headers: { Accept: "text/event-stream", ...sessionHeaders(), ...(lastId && { "Last-Event-ID": lastId }) },
      });
      if (!response.ok || !response.body) throw await errorOf(response);
      handlers.onConnected?.();
      let finished = false;
      let problem: ApiError | null = null;
      const parser = createParser({
        onEvent(event) {
          if (signal.aborted) return;
          if (event.id) lastId = event.id;
          if (event.event === "error") {
            const { status, detail, hint } = JSON.parse(event.data) as {
              status: number;
              detail: string;
              hint?: string;
            };
            problem = new ApiError(status, detail, hint);
            return;
          }
          delay = FIRST_DELAY;
          finished ||= final.includes(event.event ?? "");
          handlers.onEvent(event.event ?? "message", JSON.parse(event.data));
        },
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) parser.feed(part.value);
      if (finished) return;
      throw problem ?? new ApiError(0, "the connection was closed");
    } catch (error) {
      if (signal.aborted) return;
      const problem = error instanceof Error ? error : new Error(String(error));
      reportUnauthorized(problem);
      handlers.onInterrupted?.(problem);
      if (!mayRetry(problem)) return;
    }
    await new Promise((resolve) => setTimeout(resolve, delay));
    delay = Math.min(delay * 2, LONGEST_DELAY);
  }
}

export function mayRetry(error: Error): boolean {
  return !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;
}

export function lostAs(error: Error): "reconnecting" | "disconnected" {
  return mayRetry(error) ? "reconnecting" : "disconnected";
}
