package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// A clock is what a server takes for the machine's.
type clock struct {
	library, file string
}

// StartWithClock is Start for a server whose clock can be set, on Linux with a C compiler, which -race needs as well.
// There the server is started with a library that tells it the time. Elsewhere SetClock does nothing.
func StartWithClock(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, newClock(t), standalone(args))
}

func newClock(t testing.TB) *clock {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		return nil
	}
	dir := t.TempDir()
	source, c := filepath.Join(dir, "clock.c"), &clock{filepath.Join(dir, "clock.so"), filepath.Join(dir, "clock")}
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-O1", "-o", c.library, source).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := c.set(0); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *clock) set(later time.Duration) error {
	micros := binary.NativeEndian.AppendUint64(nil, uint64(later.Microseconds())) //nolint:gosec // two's complement
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(micros, 0)
	return err
}

func (c *clock) environ() []string {
	return append(os.Environ(), "LD_PRELOAD="+c.library, "HOLDFAST_CLOCK="+c.file)
}

// SetClock makes the server's clock show a time so much later than the machine's, or earlier if later is below 0, now
// and after a restart. It reports false if that cannot be done here.
func (s *Server) SetClock(later time.Duration) bool {
	if s.clock == nil {
		return false
	}
	if err := s.clock.set(later); err != nil {
		s.t.Error(err)
	}
	return true
}
