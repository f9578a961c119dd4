package tick

// Engine is what a process is to an inference server. Empty fields are unknown.
type Engine struct {
	Name  string `json:"name"`            // "vLLM"
	Role  string `json:"role,omitempty"`  // "server", "scheduler", "worker" and so on
	Model string `json:"model,omitempty"` // as the command line names it: a name, or a path
	Port  Number `json:"port,omitzero"`   // on which a server takes requests

	// Sizes of the server's parallelism, and the process's place in it.
	Tensor       Number `json:"tensor_parallel,omitzero"`
	Pipeline     Number `json:"pipeline_parallel,omitzero"`
	Data         Number `json:"data_parallel,omitzero"`
	TensorRank   Number `json:"tensor_rank,omitzero"`
	PipelineRank Number `json:"pipeline_rank,omitzero"`
	DataRank     Number `json:"data_rank,omitzero"`
}

// Map returns e with f applied to its texts.
func (e Engine) Map(f func(string) string) Engine {
	e.Name, e.Role, e.Model = f(e.Name), f(e.Role), f(e.Model)
	return e
}
