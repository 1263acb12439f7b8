import type { OutlineNode } from "../../../../clients/ts/src/outline.js";
import type { Pair, Part } from "./compare.js";
import { wordDiff } from "./diff.js";
import { durationOf } from "./format.js";
import { jsonChanges } from "./json_diff.js";
import { useSlices } from "./slices.js";
import { labelOf, previewOf } from "./words.js";

/** What differs between two nodes. */
export function CompareDetail({ pair }: { pair: Pair }) {
  const { a, b, parts } = pair;
  const node = a ?? b;
  if (node === undefined) return null;
  return (
    <section class="detail" aria-label="Differences" tabIndex={0}>
      <h2 dir="auto">{labelOf(node)}</h2>
      {a !== undefined && b !== undefined ? (
        <>
          {parts.map((part) => <PartDiff key={part.name} part={part} />)}
          {parts.length === 0 && <p class="quiet">The content is equal.</p>}
          <p class="quiet">{measures(a)} in the first, {measures(b)} in the second session.</p>
        </>
      ) : (
        <>
          <p>Only in the {a === undefined ? "second" : "first"} session.</p>
          {previewOf(node) !== "" && <p class="said" dir="auto">{a === undefined ? <ins>{previewOf(node)}</ins> : <del>{previewOf(node)}</del>}</p>}
        </>
      )}
    </section>
  );
}

function measures(node: OutlineNode): string {
  const time = node.to === undefined ? "open" : durationOf(node.to - node.from);
  return node.kind === "step" && node.usage !== undefined ? `${time} and ${node.usage.inputTokens + node.usage.outputTokens} tokens` : time;
}

function PartDiff({ part }: { part: Part }) {
  return (
    <>
      <h3>{part.name}</h3>
      {part.kind === "text" && <Words part={part} />}
      {part.kind === "fact" && <p class="said"><del>{part.a || "none"}</del> <ins>{part.b || "none"}</ins></p>}
      {part.kind === "json" && <Values part={part} />}
    </>
  );
}

/** Two texts as one, with what was removed and what was added. */
function Words({ part: { a, b } }: { part: Part }) {
  const pieces = useSlices(() => wordDiff(a, b), [a, b]);
  return (
    <p class="said" dir="auto">
      {pieces?.map(({ of, text }, i) => (of === "both" ? <span key={i}>{text}</span> : of === "a" ? <del key={i}>{text}</del> : <ins key={i}>{text}</ins>))}
    </p>
  );
}

/** The members that differ. */
function Values({ part: { a, b } }: { part: Part }) {
  return (
    <ul class="changes">
      {jsonChanges(a, b).map((change) => (
        <li key={change.path}>
          <code dir="auto">{change.path || "all of it"}</code>
          {change.a !== undefined && <del dir="auto">{change.a || "none"}</del>}
          {change.b !== undefined && <ins dir="auto">{change.b || "none"}</ins>}
        </li>
      ))}
    </ul>
  );
}
