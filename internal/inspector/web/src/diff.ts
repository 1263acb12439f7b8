/**
 * commonPairs returns the indexes of a longest common subsequence of two lists of n and m elements, in their order (Myers, O((n+m)d) for d differences). It returns
 * undefined if they differ in more than a number of elements. It yields after each step, of which the longest takes as long as there are differences.
 */
export function* commonPairs(n: number, m: number, equal: (i: number, j: number) => boolean, most = n + m): Generator<void, Array<[number, number]> | undefined> {
  const size = Math.min(n + m, most);
  const List = n + m < 2 ** 15 ? Int16Array : Int32Array;
  const far = new List(2 * size + 3); // by diagonal: how far a path with d differences gets in the first list
  const at = size + 1;
  const steps: Array<typeof far> = []; // what each step began with: the diagonals -d-1, -d+1, ..., d+1
  for (let d = 0; d <= size; d++) {
    const before = new List(d + 2);
    for (let k = 0; k < d + 2; k++) before[k] = far[at - d - 1 + 2 * k] ?? 0;
    steps.push(before);
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (far[at + k - 1] ?? 0) < (far[at + k + 1] ?? 0));
      let i = down ? (far[at + k + 1] ?? 0) : (far[at + k - 1] ?? 0) + 1;
      while (i < n && i - k < m && equal(i, i - k)) i++;
      far[at + k] = i;
      if (i >= n && i - k >= m) return yield* pairsOf(n, m, steps);
    }
    yield;
  }
  return undefined;
}

/** pairsOf goes back along the steps. */
function* pairsOf(n: number, m: number, steps: ReadonlyArray<Int16Array | Int32Array>): Generator<void, Array<[number, number]>> {
  const pairs: Array<[number, number]> = [];
  let [i, j] = [n, m];
  for (let d = steps.length - 1; d >= 0; d--) {
    const k = i - j;
    const [left, right] = [steps[d]?.[(k + d) / 2] ?? 0, steps[d]?.[(k + d) / 2 + 1] ?? 0];
    const down = k === -d || (k !== d && left < right);
    const x = d === 0 ? 0 : down ? right : left;
    const y = d === 0 ? 0 : x - (down ? k + 1 : k - 1);
    while (i > x && j > y) pairs.push([--i, --j]);
    [i, j] = [x, y];
    yield;
  }
  return pairs.reverse();
}

/** A piece of two texts: in both, in the first one, or in the second one. */
export interface Piece {
  of: "both" | "a" | "b";
  text: string;
}

/** The longest text that is compared by words, in characters, and the most words in which two texts may differ; beyond it, one text replaces the other. */
const [longest, mostEdits] = [64 * 1024, 1_000];

/** wordDiff compares texts by words. */
export function* wordDiff(a: string, b: string): Generator<void, Piece[]> {
  const replaced: Piece[] = [{ of: "a", text: a }, { of: "b", text: b }];
  if (a.length > longest || b.length > longest) return replaced;
  const [wordsA, wordsB] = [wordsOf(a), wordsOf(b)];
  const pairs = yield* commonPairs(wordsA.length, wordsB.length, (i, j) => wordsA[i] === wordsB[j], mostEdits);
  if (pairs === undefined) return replaced;
  const pieces: Piece[] = [];
  const add = (of: Piece["of"], words: readonly string[]) => {
    const last = pieces.at(-1);
    if (words.length === 0) return;
    if (last?.of === of) last.text += words.join("");
    else pieces.push({ of, text: words.join("") });
  };
  let [i, j] = [0, 0];
  for (const [x, y] of [...pairs, [wordsA.length, wordsB.length] as const]) {
    add("a", wordsA.slice(i, x));
    add("b", wordsB.slice(j, y));
    add("both", wordsA.slice(x, x + 1));
    [i, j] = [x + 1, y + 1];
    if (i % 512 === 0) yield;
  }
  return pieces;
}

/** wordsOf splits a text into words, spaces and other characters. */
function wordsOf(text: string): string[] {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}
