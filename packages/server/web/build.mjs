// Build the dashboard into kubectl_sky_server/rest/static/: bundles, index.html, licences and a manifest.
//
// The manifest records hashes of the sources and of the files that were built from them, so that a
// test without Node can tell whether the committed bundle is current.
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const target = join(web, "..", "kubectl_sky_server", "rest", "static");

async function files(folder) {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .filter((path) => !/^(node_modules|tests)\//.test(path))
    .sort();
}

async function hashes(folder, skipped = []) {
  const result = {};
  for (const path of await files(folder)) {
    if (!skipped.includes(path)) {
      const content = await readFile(join(folder, path));
      result[path] = createHash("sha256").update(content).digest("hex");
    }
  }
  return result;
}

// The packages whose code is in the bundle, by the inputs that esbuild reports.
function bundledPackages(metafile) {
  const names = Object.keys(metafile.inputs).map((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1]);
  return [...new Set(names.filter(Boolean))].sort();
}

async function licences(packages) {
  const parts = ["The dashboard contains the following packages.\n"];
  for (const name of packages) {
    const folder = join(web, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file`);
    const text = (await readFile(join(folder, file), "utf8")).trim();
    parts.push(`${"-".repeat(72)}\n${name} ${version} (${license})\n\n${text}\n`);
  }
  return parts.join("\n");
}

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
const result = await build({
  absWorkingDir: web,
  entryPoints: { app: "src/main.tsx" },
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  outdir: target,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none", // THIRD-PARTY.txt has the licences
  metafile: true,
});

const built = Object.keys(result.metafile.outputs).map((path) => basename(path));
const script = built.find((name) => /^app-.*\.js$/.test(name));
const style = built.find((name) => /^app-.*\.css$/.test(name));
const page = await readFile(join(web, "src", "index.html"), "utf8");
await writeFile(join(target, "index.html"), page.replace("app.js", script).replace("app.css", style));
await writeFile(join(target, "favicon.svg"), await readFile(join(web, "src", "favicon.svg")));
await writeFile(join(target, "THIRD-PARTY.txt"), await licences(bundledPackages(result.metafile)));
const manifest = { sources: await hashes(web), files: await hashes(target, ["manifest.json"]) };
await writeFile(join(target, "manifest.json"), `${JSON.stringify(manifest, null, 1)}\n`);
for (const [path, output] of Object.entries(result.metafile.outputs)) {
  console.log(`${basename(path)}  ${Math.ceil(output.bytes / 1024)} kB`);
}
