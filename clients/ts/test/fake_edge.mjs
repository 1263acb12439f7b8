// A fetch whose responses a test lists: json, body (pieces of a stream, and how it ends: "clean", "error" or "open"), status, headers, or throws.
export function fakeEdge(responses) {
  const requests = [];
  const fetch = async (url, init) => {
    const { pathname, search } = new URL(url);
    requests.push({ path: pathname + search, signal: init.signal, headers: init.headers, body: init.body });
    const next = responses.shift();
    if (next === undefined) throw new Error(`no response for ${url}`);
    if (next.throws !== undefined) throw next.throws;
    const { status = 200, headers = {}, json, body, end } = next;
    if (body === undefined) return new Response(json === undefined ? null : JSON.stringify(json), { status, headers });
    let at = 0;
    const stream = new ReadableStream({
      start(controller) {
        init.signal?.addEventListener("abort", () => controller.error(init.signal.reason));
      },
      pull(controller) {
        if (at < body.length) return controller.enqueue(new TextEncoder().encode(body[at++]));
        if (end === "clean") controller.close();
        if (end === "error") controller.error(new TypeError("terminated"));
        return end === "open" ? new Promise(() => {}) : undefined;
      },
    }, { highWaterMark: 0 });
    return new Response(stream, { status, headers });
  };
  return { fetch, requests };
}

// events returns a delta for each sequence.
export const events = (...sequences) =>
  sequences.map((n) => `id: ${n}-x\ndata: {"type":"chunk","chunk":{"type":"text_delta","agentId":"s1","agentType":"t","timestamp":0,"step":1,"delta":"${n % 10}"},"sequence":${n}}\n\n`).join("");

export const snapshot = (streamSequence) => ({
  state: null, messages: [], streamSequence, status: "active", checkpointId: null, timestamp: 0, session: { id: "s1" }, children: [], pendingCalls: [], usage: {},
});

// wait waits until a condition holds.
export async function wait(condition) {
  for (const deadline = Date.now() + 30_000; !condition(); ) {
    if (Date.now() > deadline) throw new Error(`not within 30 seconds: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
