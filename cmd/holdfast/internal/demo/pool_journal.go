package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// A journal is a file to which all processes append what they do, one JSON object per line.
// Nothing protects it but that a line is written in one step: so the lines stand in the order in
// which things happened, whatever clocks and pipes do. Who begins a job writes that when it has its
// permit, and that the job is done before it gives the permit back.
type journal string

// A line is an event in the journal.
type line struct {
	Worker int `json:"worker"`
	event
}

func (j journal) write(worker int, e event) error {
	text, err := json.Marshal(line{worker, e})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(string(j), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// read returns what stands in the journal from there on, and to where; nothing if nobody has
// written yet.
func (j journal) read(from int64) (events []event, to int64, err error) {
	file, err := os.Open(string(j))
	if errors.Is(err, os.ErrNotExist) {
		return nil, from, nil
	} else if err != nil {
		return nil, from, err
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.NewSectionReader(file, from, math.MaxInt64-from))
	if err != nil {
		return nil, from, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the next line may be being written
	for one := range bytes.Lines(text) {
		var l line
		if err := json.Unmarshal(one, &l); err != nil {
			return nil, from, fmt.Errorf("journal: %w", err)
		}
		l.worker = l.Worker
		events = append(events, l.event)
	}
	return events, from + int64(len(text)), nil
}
