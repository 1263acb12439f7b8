// Sends events to the URLs of the arguments in turn, each event in the other mode than the one before it, and every third one twice.
import { CloudEvent, emitterFor, httpTransport, Mode, HTTP } from "cloudevents";

const [count, ...urls] = process.argv.slice(2);
for (let i = 0; i < Number(count); i++) {
  const event = new CloudEvent({
    id: `e${i}`, source: "/agents/js", type: "custom", time: "2023-11-14T22:13:20.000Z", datacontenttype: "application/json",
    data: { eventName: `n${i}`, data: { text: "é 😀" } },
  });
  const message = i % 2 ? HTTP.structured(event) : HTTP.binary(event);
  for (let n = 0; n < (i % 3 ? 1 : 2); n++) {
    const response = await fetch(urls[(i + n) % urls.length], { method: "POST", headers: message.headers, body: message.body });
    if (response.status !== 200) {
      throw new Error(`event ${i}: ${response.status} ${await response.text()}`);
    }
  }
}
// The emitter of the SDK, with its own transport.
const emit = emitterFor(httpTransport(urls[0]), { mode: Mode.BINARY });
const { body } = await emit(new CloudEvent({ id: "last", source: "/agents/js", type: "text_delta", data: { delta: "done" } }));
console.log(body);
