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

// example has a value for each type of an argument of a tool.
const example: Record<string, unknown> = { string: "example", integer: 1, number: 1, boolean: true, array: [], object: {} };

// script answers without a model, slowly enough for a reload in the middle. It first calls the first tool of the route, if there is one.
const script = new MockLanguageModelV3({
  doStream: async ({ abortSignal, prompt, tools }) => ({
    stream: new ReadableStream({
      async start(controller) {
        try {
          controller.enqueue({ type: "stream-start", warnings: [] });
          const tool = tools?.find((tool) => tool.type === "function");
          if (tool && prompt.at(-1)?.role === "user") {
            const input = Object.entries(tool.inputSchema.properties ?? {}).map(([name, value]) => [name, example[Object(value).type]]);
            controller.enqueue({ type: "tool-call", toolCallId: crypto.randomUUID(), toolName: tool.name, input: JSON.stringify(Object.fromEntries(input)) });
            controller.enqueue({ type: "finish", usage, finishReason: { unified: "tool-calls", raw: undefined } });
            controller.close();
            return;
          }
          controller.enqueue({ type: "text-start", id: "1" });
          for (let n = 1; n <= 40; n++) {
            for (const delta of `This is sentence ${n} of a script. `.split(/(?<= )/)) {
              await sleep(50, undefined, abortSignal && { signal: abortSignal });
              controller.enqueue({ type: "text-delta", id: "1", delta });
            }
          }
          controller.enqueue({ type: "text-delta", id: "1", delta: "Put a key of a model into .env.local to get real answers." });
          controller.enqueue({ type: "text-end", id: "1" });
          controller.enqueue({ type: "finish", usage, finishReason: { unified: "stop", raw: undefined } });
          controller.close();
        } catch (error) {
          controller.error(error); // the answer was stopped
        }
      },
    }),
  }),
});
