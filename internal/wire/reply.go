package wire

// Reply is the structured content of an MCP tool's answer: facts by name, and rows with the columns' values.
type Reply struct {
	Facts   map[string]any `json:"facts,omitempty"`
	Columns []string       `json:"columns,omitempty"`
	Rows    [][]any        `json:"rows,omitempty"`
	Notes   []string       `json:"notes,omitempty"`
	Next    string         `json:"next,omitempty"`
}
