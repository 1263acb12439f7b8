import { convertToModelMessages, streamText } from "ai";
import { model } from "./model";

// The agent. It knows nothing of Tailrace, which posts here and stores what this streams.
export async function POST(request: Request) {
  const { messages } = await request.json();
  const result = streamText({ model: model(), messages: await convertToModelMessages(messages), abortSignal: request.signal });
  return result.toUIMessageStreamResponse({ onError: (error) => (error instanceof Error ? error.message : String(error)) });
}
