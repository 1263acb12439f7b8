// Serves the route without a framework: node server.mjs [port]
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { POST } from './route.mjs';

const server = createServer(async (req, res) => {
  if (req.method !== 'POST' || req.url !== '/api/chat') {
    res.writeHead(404).end();
    return;
  }
  const gone = new AbortController();
  res.on('close', () => gone.abort());
  try {
    const request = new Request('http://localhost/api/chat', { method: 'POST', headers: req.headers, body: Readable.toWeb(req), duplex: 'half', signal: gone.signal });
    const response = await POST(request);
    res.writeHead(response.status, Object.fromEntries(response.headers));
    await pipeline(Readable.fromWeb(response.body), res);
  } catch (error) {
    if (gone.signal.aborted) return;
    console.error(error);
    if (!res.headersSent) res.writeHead(500);
    res.end();
  }
});

server.listen(Number(process.argv[2] ?? 3000), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/api/chat`));
