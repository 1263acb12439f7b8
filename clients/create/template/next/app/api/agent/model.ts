import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { anthropic } from "@ai-sdk/anthropic";
import { createOpenAI, openai } from "@ai-sdk/openai";
import type { LanguageModel } from "ai";
import { MockLanguageModelV3 } from "ai/test";

// model returns the model for which .env.local has a key, or a script. MODEL is its name.
export function model(): LanguageModel {
  const { MODEL_URL, MODEL_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY, MODEL } = process.env;
  if (MODEL_URL) return createOpenAI({ baseURL: MODEL_URL, apiKey: MODEL_KEY ?? "none" }).chat(MODEL ?? "default");
  if (OPENAI_API_KEY) return openai(MODEL ?? "gpt-5.1");
  if (ANTHROPIC_API_KEY) return anthropic(MODEL ?? "claude-sonnet-4-5");
  return script;
}

const usage = {
  inputTokens: { total: 0, noCache: 0, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 0, text: 0, reasoning: undefined },
};

// script answers without a model, slowly enough for a reload in the middle. It first calls the first tool of the route, if there is one.
const script = new MockLanguageModelV3({ doStream: async (options) => ({ stream: Readable.toWeb(Readable.from(answer(options))) as ReadableStream<Part> }) });

async function* answer({ abortSignal, prompt, tools }: Parameters<MockLanguageModelV3["doStream"]>[0]): AsyncGenerator<Part> {
  yield { type: "stream-start", warnings: [] };
  const tool = prompt.at(-1)?.role === "user" ? tools?.find((tool) => tool.type === "function") : undefined;
  if (tool) {
    const input = Object.entries(tool.inputSchema.properties ?? {}).map(([name, value]) => [name, example[Object(value).type]]);
    yield { type: "tool-call", toolCallId: crypto.randomUUID(), toolName: tool.name, input: JSON.stringify(Object.fromEntries(input)) };
  } else {
    yield { type: "text-start", id: "1" };
    for (const delta of text.split(/(?<= )/)) {
      await sleep(50, undefined, abortSignal && { signal: abortSignal });
      yield { type: "text-delta", id: "1", delta };
    }
    yield { type: "text-end", id: "1" };
  }
  yield { type: "finish", usage, finishReason: { unified: tool ? "tool-calls" : "stop", raw: undefined } };
}

type Part = Awaited<ReturnType<MockLanguageModelV3["doStream"]>>["stream"] extends ReadableStream<infer T> ? T : never;
const text = Array.from({ length: 40 }, (_, n) => `This is sentence ${n + 1} of a script. `).join("") + "Put a key of a model into .env.local to get real answers.";
const example: Record<string, unknown> = { string: "example", integer: 1, number: 1, boolean: true, array: [], object: {} }; // by type of an argument
