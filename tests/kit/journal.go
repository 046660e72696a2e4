package kit

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// A Journal records what sessions log.
type Journal struct {
	mu    sync.Mutex // guards lines
	lines strings.Builder
}

func (j *Journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(line)
}

func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.String()
}

// Logger writes to the journal.
func (j *Journal) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// JsonLogger writes lines of all levels to the journal, as JSON objects.
func (j *Journal) JsonLogger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Entries returns the lines with that message.
func (j *Journal) Entries(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(j.String()) {
		if !strings.HasSuffix(line, "\n") {
			continue // still being written
		}
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		if e["msg"] == message {
			found = append(found, e)
		}
	}
	return found
}

// EntriesOf returns those of them that are about the lock of that name.
func (j *Journal) EntriesOf(t *testing.T, message, name string) []map[string]any {
	t.Helper()
	return slices.DeleteFunc(j.Entries(t, message), func(e map[string]any) bool { return e["name"] != name })
}

// RequireEntry waits for a line with that message, and requires its attributes to be those wanted.
func (j *Journal) RequireEntry(t *testing.T, s *holdfast.Session, message string, want map[string]any) {
	t.Helper()
	Await(t, message, func() bool { return len(j.Entries(t, message)) > 0 })
	got := j.Entries(t, message)[0]
	require.Equal(t, "WARN", got["level"])
	require.Equal(t, s.ID(), got["session"])
	for _, standard := range []string{"time", "level", "msg", "session"} {
		require.Contains(t, got, standard)
		delete(got, standard)
	}
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), message)
	for key, value := range want {
		switch value := value.(type) {
		case func(any):
			value(got[key])
		default:
			require.Equal(t, value, got[key], key)
		}
	}
}
