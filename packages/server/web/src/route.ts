// Pages by the hash of the address: #/tasks/ID/logs?rank=0

export interface Route {
  page: string;
  parts: string[];
  query: URLSearchParams;
}

// Which namespace and whose tasks a page is about; nothing means the server's default and your own.
export interface TaskScope extends Record<string, string | undefined> {
  namespace?: string;
  all_users?: string;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...parts] = path.split("/").map(decoded);
  return { page: page || "tasks", parts: parts.filter(Boolean), query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(page: string, parts: string[] = [], query: Record<string, string | undefined> = {}): string {
  const path = [page, ...parts].map(encodeURIComponent).join("/");
  const set = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const text = new URLSearchParams(set).toString();
  return `#/${path}${text && `?${text}`}`;
}

export function go(page: string, parts: string[] = [], query: Record<string, string | undefined> = {}): void {
  location.hash = href(page, parts, query);
}
