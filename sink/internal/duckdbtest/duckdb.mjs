// Runs SQL for tests: a line of standard input is a JSON string with statements, the answer is a line {"rows":[…]} of the last statement or {"error":"…"}.
// Values are texts, or null.
import { createInterface } from 'node:readline';
import { DuckDBInstance } from '@duckdb/node-api';

const db = await (await DuckDBInstance.create(':memory:')).connect();
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const reader = await db.runAndReadAll(JSON.parse(line));
    const names = reader.columnNames();
    const rows = reader.getRows().map((row) => Object.fromEntries(row.map((value, i) => [names[i], value === null ? null : String(value)])));
    answer = { rows };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
