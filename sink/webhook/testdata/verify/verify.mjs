// Verifies webhooks: a line of JSON with secret, headers and body in, "ok" or the error out.
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    new Webhook(secret).verify(body, headers);
    console.log("ok");
  } catch (error) {
    console.log(error.message);
  }
}
