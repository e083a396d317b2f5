// A proxy that breaks the connections of those who follow the log, in the middle of an event or between two; all else it hands on.
import { connect, createServer } from "node:net";

/** @param {number} port the port of the server @param {(cuts: number) => number} quota how many bytes the next connection may carry */
export async function cutting(port, quota) {
  let cuts = 0;
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => { sockets.delete(socket); client.destroy(); upstream.destroy(); });
    }
    let left = Infinity;
    client.on("data", (bytes) => {
      // A browser may use a connection for a page first, and to follow then.
      if (left === Infinity && bytes.includes("/live/events")) left = quota(cuts);
      upstream.write(bytes);
    });
    upstream.on("data", (bytes) => {
      if (left === Infinity) return client.write(bytes);
      // A browser that waits a second each time would need a quarter of an hour for a thousand.
      const text = Buffer.from(bytes.toString("latin1").replace("retry: 1000\n", "retry: 0005\n"), "latin1");
      if (text.length < left) {
        left -= text.length;
        return client.write(text);
      }
      cuts += 1;
      const rest = text.subarray(0, left);
      left = 0;
      client.write(rest, () => client.destroy());
      upstream.destroy();
    });
  });
  await new Promise((go) => server.listen(0, "127.0.0.1", () => go(undefined)));
  return {
    port: server.address().port,
    cuts: () => cuts,
    stop: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
