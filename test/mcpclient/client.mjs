// client.mjs sends each list of requests on standard input to an MCP server, with the client of the
// TypeScript SDK, and writes the results of each. Both are JSON. The client checks structured content
// against the tools' schemas.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

async function answers(ask) {
  const modern = ask.version >= '2026';
  const client = new Client({ name: 'other', version: '1' },
    modern ? { versionNegotiation: { mode: { pin: ask.version } } } : { supportedProtocolVersions: [ask.version] });
  try {
    return await answersOf(client, ask);
  } finally {
    await client.close().catch(() => {}); // a connection that stays open keeps node alive
  }
}

async function answersOf(client, ask) {
  await client.connect(ask.url
    ? new StreamableHTTPClientTransport(new URL(ask.url))
    : new StdioClientTransport({ command: ask.command[0], args: ask.command.slice(1), env: ask.env, stderr: 'inherit' }));

  const out = { version: client.getNegotiatedProtocolVersion(), instructions: client.getInstructions() ?? '', tools: [], calls: [], prompts: [], resources: [] };
  for (const tool of (await client.listTools()).tools) {
    out.tools.push({ name: tool.name, schemas: Boolean(tool.inputSchema && tool.outputSchema), readOnly: tool.annotations?.readOnlyHint === true });
  }
  for (const call of ask.calls) {
    const reply = await client.callTool({ name: call.name, arguments: call.arguments });
    out.calls.push({ name: call.name, refused: reply.isError === true, text: reply.content.map((c) => c.text).join('\n'), structured: reply.structuredContent !== undefined });
  }
  for (const prompt of (await client.listPrompts()).prompts) {
    const got = await client.getPrompt({ name: prompt.name, arguments: Object.fromEntries((prompt.arguments ?? []).map((a) => [a.name, '4821'])) });
    out.prompts.push({ name: prompt.name, text: got.messages.map((m) => m.content.text).join('\n') });
  }
  const listed = (await client.listResources()).resources.map((r) => r.uri);
  for (const uri of [...listed, ...ask.resources]) {
    const got = await client.readResource({ uri });
    out.resources.push({ uri, text: got.contents.map((c) => c.text).join('\n') });
  }
  return out;
}

let text = '';
for await (const part of process.stdin) text += part;
const all = [];
for (const ask of JSON.parse(text)) all.push(await answers(ask).catch((e) => ({ error: String(e?.stack ?? e) })));
process.stdout.write(JSON.stringify(all));
