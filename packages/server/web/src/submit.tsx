// Write a task file, check it, and submit it.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type Problem, postYaml, type Queue, type Quota, type Service, taskPath, type Whoami } from "./api";
import type { Editor } from "./editor";
import { plural } from "./format";
import { announce, copy, ErrorNote, Title, usePolled, withLinks } from "./parts";
import { isOfTasks, Limits, limitsOf } from "./quotas";
import { go, href, type TaskScope } from "./route";

const EXAMPLE = `name: hello
num_nodes: 1
resources:
  cpus: 1
  memory: 1              # GiB
run: |
  echo "Hello from rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"
`;

const SERVICE_EXAMPLE = `name: web
resources:
  cpus: 1
  memory: 1              # GiB
  ports: 8080
service:
  readiness_probe: /
  replicas: 2
run: python -m http.server 8080
`;

interface Validation {
  valid: boolean;
  problems: Problem[];
  dangers: Problem[];
}

interface Answer {
  notes: string[];
  warnings: Problem[];
}

interface Rendered {
  manifests: string;
  notes: string[];
}

interface Submitted {
  task_id: string;
  task_ids?: string[];
  message: string;
  notes: string[];
  warnings: Problem[];
}

// What the server said about a submit, for the page of the task; kept while the page is open.
export const notesOf = new Map<string, string[]>();

// Texts of the editor by the id of the task that was submitted; kept while the page is open, as they may hold secrets.
const drafts = new Map([["", EXAMPLE]]);

export function SubmitAgain({ id, scope }: { id: string; scope: TaskScope }) {
  return (
    <a class="button" href={href("submit", [], { ...scope, from: id })}>
      Submit again
    </a>
  );
}

// What the cluster keeps of a task's file: no comments, and no values of secrets.
export async function taskFile(id: string, scope: TaskScope): Promise<string> {
  const { file } = await get<{ file: string | null }>(taskPath(id, "/file"), scope);
  if (file === null) throw new Error(`The cluster does not keep the file of ${id}: files of up to 16 KiB are kept.`);
  return file;
}

// A repeated submit of the same text is the same task.
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

interface ComposeProps {
  title: string;
  verb: string;
  draft: string; // the key of its text in `drafts`
  load(): Promise<string>;
  send(text: string): Promise<void>;
  preview?(text: string): Promise<Rendered>;
  ask?(text: string): Promise<Answer>; // what the cluster would answer now
  onChange?(): void;
  children?: ComponentChildren;
}

// An editor, the problems of its text, and a button that sends it.
function Compose({ title, verb, draft, load, send, preview, ask, onChange, children }: ComposeProps) {
  const form = useRef<HTMLFormElement>(null);
  const [rendered, setRendered] = useState<Rendered | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const changed = () => {
    onChange?.();
    setRendered(null);
    setError(null);
  };
  const { host, editor, validation } = useEditor({ draft, load, onChange: changed, onError: setError });
  const errors = validation?.problems.filter(({ severity }) => severity !== "warning") ?? [];

  const run = async (action: (text: string) => Promise<void>) => {
    setBusy(true);
    setError(null);
    try {
      await action(drafts.get(draft) ?? "");
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  const submit = (event: Event) => {
    event.preventDefault();
    return run(send);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.stopPropagation();
    if (!busy && !errors.length) form.current?.requestSubmit();
  };
  const show = preview && (() => run(async (text) => setRendered(await preview(text))));
  return (
    <form ref={form} onSubmit={submit} onKeyDownCapture={keys}>
      <div class="heading">
        <Title text={title} />
      </div>
      {children}
      {error ? <ErrorNote error={error} /> : null}
      <div class="compose">
        <div class="card editor">
          <div class="editor-host" ref={host} />
          <Actions verb={verb} busy={busy} valid={!errors.length} onPreview={show} />
        </div>
        <div>
          <Problems validation={validation} onSelect={(problem) => editor.current?.goTo(problem)} />
          {ask && validation?.valid && <Forecast text={drafts.get(draft) ?? ""} ask={ask} />}
          {rendered && <Manifests rendered={rendered} />}
        </div>
      </div>
    </form>
  );
}

const PAUSE = 1000; // milliseconds without a key, after which the cluster is asked

// What the cluster says of a text that is valid, before it is sent: the answer of a dry run, and the quotas.
function Forecast({ text, ask }: { text: string; ask(text: string): Promise<Answer> }) {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [quotas] = usePolled<{ quotas: Quota[] }>("/quotas");
  useEffect(() => {
    let stopped = false;
    const timer = setTimeout(() => {
      ask(text).then(
        (result) => {
          if (stopped) return;
          setAnswer(result);
          setError(null);
        },
        (problem) => !stopped && setError(problem),
      );
    }, PAUSE);
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [text, ask]);
  return (
    <section class="card forecast" aria-labelledby="forecast">
      <h2 id="forecast">Now in the cluster</h2>
      <div role="status">
        {error ? <ErrorNote error={error} quiet /> : null}
        {!error && !answer && <p class="muted">Asking the cluster…</p>}
        {!error && answer && (
          <>
            <p>The cluster would accept it.</p>
            <ul>
              {[...answer.notes, ...answer.warnings.map(({ message }) => message)].map((note) => (
                <li key={note}>{withLinks(note)}</li>
              ))}
            </ul>
          </>
        )}
      </div>
      {limitsOf((quotas?.quotas ?? []).filter(isOfTasks)).map(([key, limits]) => (
        <div key={key} role="group" aria-label={`Quota ${key}`}>
          <h3>Quota {limits[0]!.quota}</h3>
          <Limits limits={limits} />
        </div>
      ))}
    </section>
  );
}

interface EditorProps {
  draft: string;
  load(): Promise<string>;
  onChange(): void;
  onError(error: unknown): void;
}

// An editor of a draft, which the server validates as you type.
function useEditor({ draft, load, onChange, onError }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const [validation, setValidation] = useState<Validation | null>(null);

  useEffect(() => {
    let stopped = false;
    let latest = 0; // answers may arrive in another order
    const validate = async (text: string): Promise<Problem[]> => {
      latest += 1;
      const request = latest;
      try {
        const result = await postYaml<Validation>("/validate", {}, text);
        if (!stopped && request === latest) setValidation(result);
        return result.problems;
      } catch (problem) {
        if (!stopped) onError(problem);
        return [];
      }
    };
    const start = async () => {
      const { createEditor } = await import("./editor");
      if (!drafts.has(draft)) {
        try {
          drafts.set(draft, await load());
        } catch (problem) {
          if (!stopped) onError(problem);
        }
      }
      if (stopped || !host.current) return;
      editor.current = createEditor(host.current, {
        label: "Task file in YAML",
        text: drafts.get(draft) ?? "",
        validate,
        onChange: (changed) => {
          drafts.set(draft, changed);
          onChange();
        },
      });
    };
    void start();
    return () => {
      stopped = true;
      editor.current?.destroy();
    };
  }, []);
  return { host, editor, validation };
}

interface ActionsProps {
  verb: string;
  busy: boolean;
  valid: boolean;
  onPreview?(): void;
}

function Actions({ verb, busy, valid, onPreview }: ActionsProps) {
  return (
    <div class="card-head">
      <span class="muted">Ctrl+Enter: {verb.toLowerCase()}. Esc, then Tab: leave the editor.</span>
      <div class="row-actions">
        {onPreview && (
          <button type="button" onClick={onPreview} disabled={busy}>
            Preview manifests
          </button>
        )}
        <button type="submit" class="primary" disabled={busy || !valid}>
          {verb}
        </button>
      </div>
    </div>
  );
}

function Manifests({ rendered }: { rendered: Rendered }) {
  return (
    <section class="card" aria-labelledby="preview">
      <div class="card-head">
        <h2 id="preview">Manifests</h2>
        <button type="button" class="small" onClick={() => copy(rendered.manifests)}>
          Copy
        </button>
      </div>
      {rendered.notes.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
      <pre tabIndex={0} role="group" aria-label="Manifests in YAML">
        {rendered.manifests}
      </pre>
    </section>
  );
}

// `from` is the id of a task whose text fills the editor, in the scope.
export function Submit({ user, from, scope }: { user: Whoami; from: string; scope: TaskScope }) {
  const key = useRef(newKey());
  const [queue, setQueue] = useState("");
  const [queues, setQueues] = useState<string[]>([]);
  const options = { queue: queue || undefined };
  const ask = useCallback(
    (text: string) => postYaml<Answer>("/tasks/submit", { queue: queue || undefined, dry_run: "server" }, text),
    [queue],
  );

  useEffect(() => {
    get<{ queues: Queue[] }>("/queues").then(
      (result) => setQueues(result.queues.map(({ name }) => name)),
      () => {},
    );
  }, []);

  const send = async (text: string) => {
    const result = await postYaml<Submitted>("/tasks/submit", options, text, {
      headers: { "Idempotency-Key": key.current },
    });
    announce(result.message || `Task ${result.task_id} submitted`);
    key.current = newKey();
    drafts.set(result.task_id, text);
    notesOf.set(result.task_id, [...result.notes, ...result.warnings.map(({ message }) => message)]);
    go("tasks", [result.task_id], { namespace: user.namespace });
  };
  return (
    <Compose
      title="Submit a task"
      verb="Submit"
      draft={from}
      load={() => taskFile(from, scope)}
      send={send}
      preview={(text) => postYaml<Rendered>("/render", options, text)}
      ask={ask}
      onChange={() => {
        key.current = newKey();
      }}
    >
      {queues.length > 0 && (
        <div class="toolbar">
          <label class="field">
            Queue
            <select value={queue} onChange={(event) => setQueue(event.currentTarget.value)}>
              <option value="">none</option>
              {queues.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        </div>
      )}
    </Compose>
  );
}

// Create a service, or replace the one with a name by another version.
export function Serve({ name, scope }: { name: string; scope: TaskScope }) {
  const draft = `serve/${scope.namespace ?? ""}/${name}`;
  const path = `/services/${encodeURIComponent(name)}`;
  const load = async () => {
    if (!name) return SERVICE_EXAMPLE;
    const { file } = await get<{ file: string | null }>(`${path}/file`, scope);
    if (file === null) throw new Error(`The cluster does not keep the file of service ${name}: paste it here.`);
    return file;
  };
  const send = async (text: string) => {
    const service = await postYaml<Service>(name ? `${path}/update` : "/services/create", scope, text);
    drafts.delete(draft);
    announce(`Service ${service.name}: version ${service.version} sent`);
    go("services");
  };
  return (
    <Compose
      title={name ? `Update service ${name}` : "Create a service"}
      verb={name ? "Update" : "Create"}
      draft={draft}
      load={load}
      send={send}
    >
      {name && (
        <p class="note">
          Replicas of the old version serve until the new ones are ready. Values of secrets are not kept: enter those
          that are null.
        </p>
      )}
    </Compose>
  );
}

function Problems({ validation, onSelect }: { validation: Validation | null; onSelect(problem: Problem): void }) {
  if (!validation) return null;
  const { problems, dangers } = validation;
  const title = problems.length ? plural(problems.length, "problem") : "The file is valid";
  return (
    <section class="card" aria-labelledby="problems">
      <div role="status">
        <h2 id="problems" class={problems.length ? "problem" : "fine"}>
          {title}
        </h2>
      </div>
      {problems.length > 0 && (
        <ul class="problems">
          {problems.map((problem, index) => (
            <li key={index}>
              <button
                type="button"
                class={`problem-line ${problem.severity ?? "error"}`}
                onClick={() => onSelect(problem)}
              >
                <span class="tag">line {problem.line}</span>
                <span>
                  <strong>{problem.path}</strong>
                  {problem.path ? ": " : ""}
                  {problem.message}
                  {problem.hint ? `; ${problem.hint}` : ""}
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {dangers?.length > 0 && (
        <>
          <h3>Reaches beyond the task</h3>
          <ul>
            {dangers.map((danger, index) => (
              <li key={index}>
                <strong>{danger.path}</strong>: {danger.message}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
