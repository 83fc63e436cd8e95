// The dashboard's frame: who is logged in, which page is shown, and messages.
import { Component, type ComponentChildren, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import {
  behindProxy,
  get,
  logOut,
  nameStreams,
  setNamespace,
  setSession,
  shareSession,
  type Whoami,
  whenUnauthorized,
} from "./api";
import { ClusterPage } from "./cluster";
import { Login } from "./login";
import { Logs } from "./logs";
import { Announcements, Dialog, ErrorNote, Logo } from "./parts";
import { TargetPage } from "./pipeline";
import { go, href, parseRoute, type Route } from "./route";
import { Services } from "./services";
import { notesOf, Serve, Submit } from "./submit";
import { Tasks } from "./tasks";
import { isDark, onTheme, setDark } from "./theme";
import { Volumes } from "./volumes";
import "uplot/dist/uPlot.min.css";
import "./style.css";

// The rest of a title is shown on wide screens only.
const PAGES: [page: string, title: string, rest?: string][] = [
  ["tasks", "Tasks"],
  ["services", "Services"],
  ["volumes", "Volumes"],
  ["cluster", "GPUs", " and queues"],
  ["submit", "Submit"], // on wide screens it is a button
];

// The page of the address, as it changes.
function useRoute(): Route {
  const [route, setRoute] = useState<Route>(parseRoute(location.hash));
  useEffect(() => {
    const changed = () => {
      setRoute(parseRoute(location.hash));
      window.scrollTo(0, 0);
    };
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function App() {
  const route = useRoute();
  const [user, setUser] = useState<Whoami | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [remembered, setRemembered] = useState<string | null>(null);

  useEffect(() => {
    whenUnauthorized(() => {
      if (!behindProxy()) setSession(null);
      setNamespace("");
      setUser(null);
      const current = parseRoute(location.hash);
      if (current.page !== "login") go("login", [], { next: location.hash.slice(1) });
    });
  }, []);

  // The page of one task has the namespace of its link: it is no choice.
  const linked = route.parts.length ? null : route.query.get("namespace");
  useEffect(() => {
    if (linked) setRemembered(linked);
  }, [linked]);
  const loginPage = route.page === "login";
  useEffect(() => {
    if (loginPage || user) return;
    get<Whoami>("/whoami").then((found) => {
      nameStreams();
      setUser(found);
    }, setError);
  }, [loginPage, user]);

  if (loginPage) return <Login route={route} onLogin={setUser} />;
  if (!user) {
    return (
      <main class="page" id="main">
        {error ? <ErrorNote error={error} /> : <p class="muted">Loading…</p>}
      </main>
    );
  }
  const namespace = linked || (remembered ?? savedNamespace(user)) || user.namespace;
  setNamespace(namespace);
  const choose = (name: string) => {
    localStorage.setItem(namespaceKey(user), name);
    setRemembered(name);
    if (linked || route.parts.length) go(route.parts.length ? "tasks" : route.page);
  };
  return (
    <>
      <SkipLink />
      <Header route={route} user={user} namespace={namespace} onNamespace={choose} onLogout={() => setUser(null)} />
      <main class={isWide(route) ? "page full" : "page"} id="main" tabIndex={-1}>
        <Guard key={[namespace, route.page, ...route.parts].join("/")}>
          <Page route={route} user={{ ...user, namespace }} />
        </Guard>
      </main>
      <Announcements />
      <Keys />
    </>
  );
}

// Lists and logs use all of a wide screen; texts and forms would be hard to read.
const isWide = ({ page, parts }: Route) => parts[1] === "logs" || (!parts.length && LISTS.includes(page));
const LISTS = ["tasks", "services", "volumes", "cluster"];

const namespaceKey = (user: Whoami) => `kubectl-sky-namespace/${user.user}`;
const savedNamespace = (user: Whoami) => localStorage.getItem(namespaceKey(user));

// The hash of the address names the page, so that the browser cannot follow the link itself.
function SkipLink() {
  const skip = (event: Event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  };
  return (
    // biome-ignore lint/a11y/useValidAnchor: it is a link to a place in the page
    <a class="skip" href="#main" onClick={skip}>
      Skip to content
    </a>
  );
}

function Page({ route, user }: { route: Route; user: Whoami }) {
  const [id, part] = route.parts;
  const scope = {
    namespace: route.query.get("namespace") ?? undefined,
    all_users: route.query.get("all_users") ?? undefined,
  };
  if ((route.page === "tasks" || route.page === "services") && id && part === "logs") {
    const rank = route.query.get("rank") ?? "";
    return (
      <Logs
        key={[id, scope.namespace, rank, route.query.get("by_node")].join("/")}
        of={route.page}
        id={id}
        scope={scope}
        rank={rank}
        byNode={route.query.has("by_node")}
        search={route.query.get("search") ?? ""}
      />
    );
  }
  switch (route.page) {
    case "tasks":
      if (!id) return <Tasks user={user} route={route} />;
      return (
        <>
          {notesOf.get(id)?.map((note) => (
            <p key={note} class="note">
              {note}
            </p>
          ))}
          <TargetPage key={`${id}/${route.query}`} id={id} scope={scope} />
        </>
      );
    case "services":
      return <Services user={user} />;
    case "volumes":
      return <Volumes user={user} />;
    case "cluster":
      return <ClusterPage user={user} />;
    case "serve":
      return <Serve key={id} name={id ?? ""} scope={scope} />;
    case "submit":
      return <Submit key={route.query.get("from")} user={user} from={route.query.get("from") ?? ""} scope={scope} />;
    default:
      return (
        <>
          <h1>Page not found</h1>
          <p>
            <a href={href("tasks")}>Show the tasks</a>
          </p>
        </>
      );
  }
}

interface HeaderProps {
  route: Route;
  user: Whoami;
  namespace: string;
  onNamespace(name: string): void;
  onLogout(): void;
}

function Header({ route, user, namespace, onNamespace, onLogout }: HeaderProps) {
  const logout = async () => {
    await logOut();
    setNamespace("");
    onLogout();
    go("login");
  };
  return (
    <header class="bar">
      <a class="brand" href={href("tasks")}>
        <Logo />
        <span>
          kubectl sky
          <span class="context" title={`Context ${user.context}`}>
            {user.context}
          </span>
        </span>
      </a>
      <Navigation page={route.page} />
      <div class="account">
        <span class="who" title={user.user}>
          <span class="visually-hidden">Logged in as </span>
          {user.user}
        </span>
        <input
          class="namespace"
          aria-label="Namespace"
          list="namespaces"
          autocomplete="off"
          spellcheck={false}
          value={namespace}
          onChange={(event) => onNamespace(event.currentTarget.value.trim())}
        />
        <datalist id="namespaces">
          {user.namespaces.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <DarkSwitch />
        <button type="button" class="quiet" onClick={logout}>
          Log out
        </button>
        <a class="button primary" href={href("submit")}>
          Submit a task
        </a>
      </div>
    </header>
  );
}

function Navigation({ page: current }: { page: string }) {
  return (
    <nav aria-label="Main">
      {PAGES.map(([page, title, rest]) => (
        <a
          key={page}
          href={href(page)}
          class={page === "submit" ? "narrow-only" : ""}
          aria-current={current === page || (current === "serve" && page === "services") ? "page" : undefined}
        >
          {title}
          {rest && <span class="wide-only">{rest}</span>}
        </a>
      ))}
    </nav>
  );
}

function DarkSwitch() {
  const [dark, show] = useState(isDark());
  useEffect(() => onTheme(() => show(isDark())), []);
  return (
    <button
      type="button"
      class="quiet"
      role="switch"
      aria-checked={dark}
      aria-label="Dark"
      title="Dark"
      onClick={() => setDark(!dark)}
    >
      <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
        <circle cx="10" cy="10" r="8" fill="none" stroke="currentColor" stroke-width="2" />
        <path d="M10 2a8 8 0 0 1 0 16z" fill="currentColor" />
      </svg>
    </button>
  );
}

const KEYS: [key: string, what: string][] = [
  ["?", "Show these keys"],
  ["g t", "Go to the tasks"],
  ["g s", "Go to the services"],
  ["g v", "Go to the volumes"],
  ["g g", "Go to the GPUs and queues"],
  ["n", "Write a new task"],
  ["/", "Go to the search field of the page"],
  ["Ctrl+Enter", "Submit the task in the editor"],
  ["Esc, then Tab", "Leave the editor"],
];
const PLACES: Record<string, string> = { t: "tasks", s: "services", v: "volumes", g: "cluster" };

function Keys() {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    let previous = "";
    const pressed = (event: KeyboardEvent) => {
      const typing = (event.target as HTMLElement).closest("input, textarea, select, dialog, [contenteditable]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const place = previous === "g" ? PLACES[event.key] : undefined;
      previous = event.key;
      if (place) go(place);
      else if (event.key === "?") setShown(true);
      else if (event.key === "n") go("submit");
      else if (event.key === "/") document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
      else return;
      previous = "";
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  if (!shown) return null;
  return (
    <Dialog title="Keys" onClose={() => setShown(false)}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <div class="actions">
        <button type="button" onClick={() => setShown(false)}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

// A page that fails must not take the frame with it.
class Guard extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };
  override componentDidCatch(error: unknown) {
    this.setState({ error });
  }
  override render() {
    return this.state.error ? <ErrorNote error={this.state.error} /> : this.props.children;
  }
}

void shareSession().then(() => render(<App />, document.getElementById("app")!));
