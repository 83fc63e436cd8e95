// Log in with a token, or with the code of a one-time link.
import { useEffect, useState } from "preact/hooks";
import { behindProxy, get, post, setSession, type Whoami } from "./api";
import { ErrorNote, Logo, Title } from "./parts";
import type { Route } from "./route";

export function Login({ route, onLogin }: { route: Route; onLogin(user: Whoami): void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const code = route.query.get("code");
  const next = route.query.get("next");

  const place = next?.startsWith("/") ? `#${next}` : "#/tasks";
  const login = async (body: { token: string } | { code: string }) => {
    setBusy(true);
    setError(null);
    try {
      setSession((await post<{ session: string }>("/login", {}, body)).session);
      const user = await get<Whoami>("/whoami");
      setToken("");
      // The code is used up: it must not stay in the history.
      history.replaceState(null, "", place);
      onLogin(user);
      window.dispatchEvent(new HashChangeEvent("hashchange"));
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  useEffect(() => {
    if (code) void login({ code });
  }, [code]);

  const submit = (event: Event) => {
    event.preventDefault();
    if (token.trim()) void login({ token: token.trim() });
  };
  if (behindProxy()) return <LoggedOut place={place} />;
  return (
    <main class="login">
      <div class="card">
        <Logo />
        <Title text="Log in to kubectl sky" />
        <form onSubmit={submit}>
          <label for="token">Bearer token of your cluster</label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
          <TokenHelp />
          {error ? <ErrorNote error={error} /> : null}
          <button type="submit" class="primary wide" disabled={busy}>
            {busy ? "Logging in…" : "Log in"}
          </button>
        </form>
      </div>
    </main>
  );
}

function LoggedOut({ place }: { place: string }) {
  return (
    <main class="login">
      <div class="card">
        <Logo />
        <Title text="Logged out of kubectl sky" />
        <p class="muted">
          Your identity provider may still know you: on a computer that you share, log out there, too.
        </p>
        <a class="button primary wide" href={`/oauth2/start?rd=%2Fui%2F${place}`}>
          Log in
        </a>
      </div>
    </main>
  );
}

function TokenHelp() {
  return (
    <p class="muted" id="token-help">
      For example, the output of <code>kubectl create token NAME</code>. This tab keeps it encrypted until you log out,
      at most twelve hours, and the server uses it for every request: you see what the token may see.
    </p>
  );
}
