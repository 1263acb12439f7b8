// Compiled, not run: the types of the package in an application.
import { emptyTree, followSession, mintSessionToken, publishRun, reduceTree, textOf, type ChunkOf, type RunState, type Tree } from "tailrace-client";
import { useSession } from "tailrace-client/react";

export async function text(url: string): Promise<string> {
  let tree: Tree = emptyTree("s1");
  for await (const event of followSession({ url, session: "s1", getToken: async () => "token" })) {
    tree = reduceTree(tree, event);
    if (event.type === "chunk" && event.chunk.type === "text_delta") {
      const delta: string = event.chunk.delta;
      const chunk: ChunkOf<"text_delta"> = event.chunk;
      console.log(delta, chunk.agentId);
    }
    // @ts-expect-error: there is no such type
    if (event.type === "chunk" && event.chunk.type === "no_such_type") return "";
  }
  const root = tree.agents["s1"];
  return root === undefined ? "" : textOf(root);
}

export function usePage(session: string): string {
  const { tree, connection } = useSession({ url: "https://edge.test", session, scope: "tree" });
  return `${connection} ${Object.keys(tree.agents).length}`;
}

export const token: Promise<string> = mintSessionToken({
  key: { kty: "OKP", crv: "Ed25519", x: "", d: "" }, keyId: "k", issuer: "i", audience: "a", tenant: "t", subject: "s", scopes: ["read"],
});

export async function pipe(url: string, model: Response): Promise<RunState> {
  // @ts-expect-error: there is no such dialect
  await publishRun({ url, session: "s1", dialect: "morse" });
  const run = await publishRun({ url, session: "s1", dialect: "openai" });
  if (model.body !== null) return run.pipe(model.body);
  return run.pipe((async function* () { yield "{}\n"; })(), "ndjson");
}
