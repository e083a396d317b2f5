// Screenshots with few colours: a quarter of the bytes, and nobody sees it. Reads what Chromium writes: 8 bits, RGB or RGBA.
import { deflateSync, inflateSync } from "node:zlib";

const COLOURS = 128;

/** The colours that are taken because nothing like them is among the others: a mark is small, and must keep its colour. */
const RARE = 40;

/** How different two colours are. @param {number[]} one @param {number[]} other */
const far = (one, other) => (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2;

/** Returns the colours of a picture that is to have few. @param {{ count: number, rgb: number[] }[]} known the colours that it has */
function chosen(known) {
  const sorted = known.sort((a, b) => b.count - a.count);
  const palette = sorted.slice(0, COLOURS - RARE).map((colour) => colour.rgb);
  const rest = sorted.slice(COLOURS - RARE).filter((colour) => colour.count >= 4).map(({ rgb }) => ({ rgb, away: Math.min(...palette.map((other) => far(rgb, other))) }));
  while (palette.length < COLOURS && rest.length > 0) {
    const next = rest.reduce((found, colour) => (colour.away > found.away ? colour : found));
    if (next.away === 0) break;
    palette.push(next.rgb);
    for (const colour of rest) colour.away = Math.min(colour.away, far(colour.rgb, next.rgb));
  }
  return palette;
}

/** @param {Buffer} png */
function pixels(png) {
  let at = 8;
  let width = 0;
  let height = 0;
  let depth = 3;
  const packed = [];
  while (at < png.length) {
    const length = png.readUInt32BE(at);
    const kind = png.toString("latin1", at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (kind === "IHDR") {
      [width, height] = [body.readUInt32BE(0), body.readUInt32BE(4)];
      depth = body[9] === 6 ? 4 : 3;
    }
    if (kind === "IDAT") packed.push(body);
    at += length + 12;
  }
  const lines = inflateSync(Buffer.concat(packed));
  const wide = width * depth;
  const out = Buffer.alloc(height * wide);
  for (let y = 0; y < height; y += 1) {
    const filter = lines[y * (wide + 1)];
    for (let x = 0; x < wide; x += 1) {
      const left = x >= depth ? out[y * wide + x - depth] : 0;
      const up = y > 0 ? out[(y - 1) * wide + x] : 0;
      const corner = x >= depth && y > 0 ? out[(y - 1) * wide + x - depth] : 0;
      out[y * wide + x] = lines[y * (wide + 1) + 1 + x] + guess(filter, left, up, corner);
    }
  }
  return { width, height, depth, out };
}

function guess(filter, left, up, corner) {
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  if (filter !== 4) return 0;
  const near = left + up - corner;
  const [l, u, c] = [Math.abs(near - left), Math.abs(near - up), Math.abs(near - corner)];
  return l <= u && l <= c ? left : u <= c ? up : corner;
}

/** The checksum of a piece of the file. @param {Buffer} bytes */
function crc32(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return (sum ^ 0xffffffff) >>> 0;
}

function chunk(kind, body) {
  const named = Buffer.concat([Buffer.from(kind, "latin1"), body]);
  const framed = Buffer.alloc(named.length + 8);
  framed.writeUInt32BE(body.length, 0);
  named.copy(framed, 4);
  framed.writeUInt32BE(crc32(named), named.length + 4);
  return framed;
}

/** Returns the picture with the colours that it has most; others become the nearest of them. @param {Buffer} png */
export function fewColours(png) {
  const { width, height, depth, out } = pixels(png);
  const counts = new Map();
  for (let at = 0; at < out.length; at += depth) {
    const colour = (out[at] << 16) | (out[at + 1] << 8) | out[at + 2];
    const known = counts.get(colour);
    if (known) known.count += 1;
    else counts.set(colour, { count: 1, rgb: [out[at], out[at + 1], out[at + 2]] });
  }
  const palette = chosen([...counts.values()]);
  const nearest = new Map();
  const place = (colour, rgb) => {
    let best = nearest.get(colour);
    if (best === undefined) {
      best = palette.reduce((found, other, at) => (far(other, rgb) < far(palette[found], rgb) ? at : found), 0);
      nearest.set(colour, best);
    }
    return best;
  };
  const lines = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const at = (y * width + x) * depth;
      const rgb = [out[at], out[at + 1], out[at + 2]];
      lines[y * (width + 1) + 1 + x] = place((rgb[0] << 16) | (rgb[1] << 8) | rgb[2], rgb);
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  [head[8], head[9]] = [8, 3];
  const parts = [chunk("IHDR", head), chunk("PLTE", Buffer.from(palette.flat())), chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), ...parts]);
}
