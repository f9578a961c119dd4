package clickhouse

import (
	"bytes"
	"context"

	"github.com/klauspost/compress/gzip"
)

// maxDays bounds the days, which are partitions, of the rows of one INSERT. It is the default of
// ClickHouse's setting max_partitions_per_insert_block. Servers that do not know the setting reject an INSERT that
// sets it.
const maxDays = 100

// block holds rows that are sent together: in one INSERT unless they are of more than maxDays days.
type block struct {
	rows int
	full [][]byte       // compressed rows of earlier INSERTs
	days map[int64]bool // of the rows in body
	body bytes.Buffer
	zip  *gzip.Writer
	room []byte
}

// add adds a row of a time, in seconds since the epoch, that is the value of the table's at.
func (b *block) add(row []byte, at int64) error {
	if b.zip == nil {
		zip, err := gzip.NewWriterLevel(&b.body, gzip.BestSpeed)
		if err != nil {
			return err
		}
		b.zip, b.days = zip, map[int64]bool{}
	}
	day := at / (24 * 60 * 60)
	if !b.days[day] && len(b.days) == maxDays {
		if err := b.zip.Close(); err != nil {
			return err
		}
		b.full = append(b.full, bytes.Clone(b.body.Bytes()))
		b.restart()
	}
	b.days[day] = true
	b.rows++
	_, err := b.zip.Write(row)
	return err
}

// send sends the rows, and empties the block.
func (b *block) send(ctx context.Context, c *Cluster, t *table) error {
	if b.rows == 0 {
		return nil
	}
	if err := b.zip.Close(); err != nil {
		return err
	}
	for _, body := range append(b.full, b.body.Bytes()) {
		if err := c.insert(ctx, t, body); err != nil {
			return err
		}
	}
	b.clear()
	return nil
}

// restart empties body.
func (b *block) restart() {
	b.body.Reset()
	b.zip.Reset(&b.body)
	clear(b.days)
}

func (b *block) clear() {
	b.rows, b.full = 0, nil
	if b.zip != nil {
		b.restart()
	}
}
