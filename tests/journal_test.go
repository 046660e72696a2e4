package tests

import (
	"log/slog"
	"strings"
	"sync"
)

// A journal is what sessions log.
type journal struct {
	mu    sync.Mutex // guards lines
	lines strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.String()
}

// logger writes to the journal.
func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }
