// client.mjs sends the requests on standard input to an MCP server, with the client of the
// TypeScript SDK, and writes the results. Both are JSON. The client checks structured content
// against the tools' schemas.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

let text = '';
for await (const part of process.stdin) text += part;
const ask = JSON.parse(text);

const modern = ask.version >= '2026';
const client = new Client({ name: 'other', version: '1' },
  modern ? { versionNegotiation: { mode: { pin: ask.version } } } : { supportedProtocolVersions: [ask.version] });
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
await client.close();
process.stdout.write(JSON.stringify(out));
