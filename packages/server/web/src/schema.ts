// The schema of task files: which fields are allowed where the cursor is.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { get } from "./api";

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  description?: string;
  type?: string | string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  examples?: unknown[];
}

export class SchemaFiles {
  private constructor(
    private readonly root: Schema,
    private readonly files: Map<string, Schema>,
  ) {}

  static async load(): Promise<SchemaFiles> {
    const root = await get<Schema>("/schemas/task.json");
    const files = new Map<string, Schema>();
    const wanted = references(root);
    for (const name of wanted) {
      if (files.has(name) || name === "task.json") continue;
      const file = await get<Schema>(`/schemas/${encodeURIComponent(name)}`).catch(() => ({}));
      files.set(name, file);
      wanted.push(...references(file));
    }
    return new SchemaFiles(root, files);
  }

  // The schemas that a value may have at a path; list items have the step "-".
  at(path: string[]): Schema[] {
    let schemas = this.variants(this.root, this.root);
    for (const step of path) {
      schemas = schemas.flatMap(([schema, file]) => this.step(schema, file, step));
    }
    return schemas.map(([schema]) => schema);
  }

  private step(schema: Schema, file: Schema, step: string): [Schema, Schema][] {
    const additional = typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
    const child = step === "-" ? schema.items : (schema.properties?.[step] ?? additional);
    return child ? this.variants(child, file) : [];
  }

  // A schema with its references and alternatives resolved, each with the file that it is in.
  private variants(schema: Schema, file: Schema, depth = 0): [Schema, Schema][] {
    if (depth > 8) return [];
    const result: [Schema, Schema][] = [[schema, file]];
    if (schema.$ref) {
      const [target, targetFile] = this.resolve(schema.$ref, file);
      if (target) result.push(...this.variants(target, targetFile, depth + 1));
    }
    for (const option of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]) {
      result.push(...this.variants(option, file, depth + 1));
    }
    return result;
  }

  private resolve(reference: string, from: Schema): [Schema | undefined, Schema] {
    const [name = "", pointer = ""] = reference.split("#");
    const file = name ? (this.root.$defs?.[name] ?? this.files.get(name) ?? this.root) : from;
    let target: unknown = file;
    for (const part of pointer.split("/").filter(Boolean)) {
      target = (target as Record<string, unknown> | undefined)?.[part.replaceAll("~1", "/").replaceAll("~0", "~")];
    }
    return [target as Schema | undefined, file];
  }
}

function references(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  const nested = Object.values(value).flatMap(references);
  const name = "$ref" in value && typeof value.$ref === "string" ? value.$ref.split("#")[0] : "";
  return name ? [name, ...nested] : nested;
}

const KEY = /^(\s*)((?:- +)*)("[^"]*"|'[^']*'|[^\s#:'"][^:#]*?)\s*:(?:\s|$)/;

// The keys that a line is in, by indentation: works in text that is not yet valid YAML.
export function parents(lines: string[], number: number, space: number, dashes: string): string[] {
  const path = dashes ? ["-"] : [];
  let column = space + (dashes ? 1 : 0); // keys are left of it
  let dash = dashes ? space : Infinity; // dashes are left of it
  for (let index = number - 1; index >= 0 && column > 0; index -= 1) {
    const line = lines[index] ?? "";
    if (!line.trim() || line.trimStart().startsWith("#")) continue;
    if (/^(---|\.\.\.)/.test(line)) break;
    const start = /^(\s*)((?:- +)*)/.exec(line)!;
    const keyColumn = start[0].length;
    const key = KEY.exec(line)?.[3];
    if (key && keyColumn < column) {
      path.unshift(key.replace(/^["']|["']$/g, ""));
      column = keyColumn;
    }
    if (start[2] && start[1]!.length < Math.min(column, dash)) {
      path.unshift("-");
      dash = start[1]!.length;
      column = dash + 1;
    }
  }
  return path;
}

export function completer(schema: SchemaFiles) {
  return (context: CompletionContext): CompletionResult | null => {
    const { number, from, text } = context.state.doc.lineAt(context.pos);
    const lines = context.state.doc.toString().split("\n");
    const [, space = "", dashes = "", rest = ""] =
      /^(\s*)((?:- +)*)(.*)$/.exec(text.slice(0, context.pos - from)) ?? [];
    const path = parents(lines, number - 1, space.length, dashes);
    const value = /^([\w.-]+): +([^#]*)$/.exec(rest);
    if (value) {
      const options = values(schema.at([...path, value[1]!]));
      return { from: context.pos - value[2]!.length, options, validFor: /^[^#]*$/ };
    }
    if (!/^[\w.-]*$/.test(rest) || (!rest && !context.explicit)) return null;
    const used = siblings(lines, number - 1, space.length + dashes.length);
    const options = keys(schema.at(path)).filter(({ label }) => !used.has(label));
    return { from: context.pos - rest.length, options, validFor: /^[\w.-]*$/ };
  };
}

// Keys at the same indentation around a line: they are already set.
function siblings(lines: string[], number: number, indent: number): Set<string> {
  const names = new Set<string>();
  for (const step of [-1, 1]) {
    for (let index = number + step; index >= 0 && index < lines.length; index += step) {
      const line = lines[index] ?? "";
      if (!line.trim()) continue;
      const match = KEY.exec(line);
      const column = line.length - line.trimStart().length;
      if (column < indent || line.startsWith("---")) break;
      if (match && column === indent && !match[2]) names.add(match[3]!);
    }
  }
  return names;
}

function keys(schemas: Schema[]): Completion[] {
  const result = new Map<string, Completion>();
  for (const schema of schemas) {
    for (const [label, property] of Object.entries(schema.properties ?? {})) {
      const nested = property.type === "object" || property.properties;
      result.set(label, {
        label,
        type: "property",
        detail: typeof property.type === "string" ? property.type : undefined,
        info: property.description,
        apply: nested ? `${label}:` : `${label}: `,
        boost: -Math.min(result.size, 99), // the order of the schema, not of the alphabet
      });
    }
  }
  return [...result.values()];
}

function values(schemas: Schema[]): Completion[] {
  const labels = new Set<string>();
  for (const schema of schemas) {
    const given = [...(schema.enum ?? []), ...("const" in schema ? [schema.const] : []), ...(schema.examples ?? [])];
    if (schema.type === "boolean") given.push(true, false);
    for (const value of given) {
      if (["string", "number", "boolean"].includes(typeof value) && !String(value).includes("\n"))
        labels.add(String(value));
    }
  }
  return [...labels].map((label) => ({ label, type: "constant" }));
}
