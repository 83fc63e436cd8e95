// The YAML editor: completion from the schema, problems from the server as you type.
//
// It lives in a shadow root: there CodeMirror's styles are adopted style sheets, which the
// Content-Security-Policy allows, and not style elements, which it refuses.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, linter, lintGutter, lintKeymap } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Problem } from "./api";
import { completer, SchemaFiles } from "./schema";

const VALIDATE_AFTER = 400; // milliseconds without a key

const THEME = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--field)", fontSize: "14px", height: "100%" },
  "&.cm-focused": { outline: "none" }, // the card around it shows the focus
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { color: "var(--muted)", backgroundColor: "var(--field)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-selectionMatch, .cm-searchMatch": { backgroundColor: "var(--mark)" },
  ".cm-tooltip, .cm-panels": {
    color: "var(--text)",
    backgroundColor: "var(--card)",
    border: "1px solid var(--border)",
    borderRadius: "8px",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip-autocomplete ul li": { padding: "3px 8px !important" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--on-accent)", backgroundColor: "var(--accent)" },
  ".cm-completionDetail": { color: "inherit", marginLeft: "1em" },
  ".cm-completionInfo": { padding: "8px 12px", maxWidth: "320px", fontFamily: "system-ui, sans-serif" },
  ".cm-diagnostic": { padding: "6px 10px", fontFamily: "system-ui, sans-serif" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--failed)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--pending)" },
});

const COLORS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--syntax-key)" },
  { tag: tags.string, color: "var(--syntax-string)" },
  { tag: [tags.content, tags.special(tags.string)], color: "var(--text)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.separator, tags.punctuation, tags.meta], color: "var(--muted)" },
  { tag: [tags.keyword, tags.typeName, tags.labelName], color: "var(--syntax-word)" },
]);

interface EditorOptions {
  label: string;
  text: string;
  onChange(text: string): void;
  validate(text: string): Promise<Problem[]>;
}

export interface Editor {
  text(): string;
  replace(text: string): void;
  goTo(problem: Problem): void;
  destroy(): void;
}

export function createEditor(host: HTMLElement, options: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: options.text,
      extensions: extensions(options),
    }),
  });
  view.scrollDOM.tabIndex = 0; // it scrolls sideways: the keyboard must reach it
  return {
    text: () => view.state.doc.toString(),
    replace: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    goTo: (problem) => {
      const { from } = diagnostic(view.state, problem);
      view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}

function extensions(options: EditorOptions): Extension[] {
  let schema: ReturnType<typeof completer> | null = null;
  SchemaFiles.load().then(
    (files) => {
      schema = completer(files);
    },
    () => {},
  );
  const check = async ({ state }: EditorView) => {
    const problems = await options.validate(state.doc.toString());
    return problems.map((problem) => diagnostic(state, problem));
  };
  return [
    lineNumbers(),
    history(),
    drawSelection(),
    indentOnInput(),
    indentUnit.of("  "),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    yaml(),
    syntaxHighlighting(COLORS),
    autocompletion({ override: [(context) => schema?.(context) ?? null], icons: false }),
    lintGutter(),
    linter(check, { delay: VALIDATE_AFTER }),
    // Escape, then Tab leaves the editor.
    keymap.of([
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...lintKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...defaultKeymap,
      indentWithTab,
    ]),
    EditorView.contentAttributes.of({
      "aria-label": options.label,
      "aria-description": "Press Escape, then Tab to leave the editor",
    }),
    EditorView.updateListener.of((update) => update.docChanged && options.onChange(update.state.doc.toString())),
    THEME,
  ];
}

function diagnostic(state: EditorState, problem: Problem): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(problem.line, 1), state.doc.lines));
  const from = Math.min(line.from + Math.max(problem.column - 1, 0), line.to);
  const word = /^[^\s:]+/.exec(state.sliceDoc(from, line.to))?.[0].length ?? 0;
  const message = [problem.path && `${problem.path}: `, problem.message, problem.hint && `; ${problem.hint}`]
    .filter(Boolean)
    .join("");
  return {
    from,
    to: Math.max(from + word, Math.min(from + 1, line.to)),
    severity: problem.severity === "warning" ? "warning" : "error",
    message,
  };
}
