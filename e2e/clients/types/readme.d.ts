// What the boxes of the README do not declare, and packages that are not installed here.
declare const url: string, user: string, session: string, model: string, streamId: string;
declare const request: RequestInit;
declare const process: { env: Record<string, string> };
declare const result: { toUIMessageStream(): ReadableStream<import("ai").UIMessageChunk> };
declare const JsonToSseTransformStream: typeof import("ai").JsonToSseTransformStream;
declare function getToken(): Promise<string>;

declare module "next/server" {
  export function after(work: Promise<unknown>): void;
}
declare module "@ai-sdk/vue" {
  export { Chat } from "@ai-sdk/react";
}
