package segment

import (
	"encoding/json"
	"fmt"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

// inference writes a tick's reads of inference servers, if it has any.
func (w *Writer) inference(reads []tick.Inference) error {
	if len(reads) == 0 {
		return nil
	}
	body, err := json.Marshal(reads)
	if err != nil {
		return err
	}
	w.frame(frameInference, 1, w.enc.column(nil, body))
	return nil
}

// readInference decodes the output of inference.
func readInference(body []byte, dec *decoder) ([]tick.Inference, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxTick)
	if err != nil {
		return nil, err
	}
	reads, err := unmarshal[[]tick.Inference](r.b, "reads of inference servers")
	if err == nil && (len(reads) == 0 || len(outer.b) != 0) {
		err = fmt.Errorf("%w: invalid reads of inference servers", log.ErrCorrupt)
	}
	return reads, err
}
