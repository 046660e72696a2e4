package redistest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// observerName is the name that this package's connections bear in CLIENT LIST.
const observerName = "redistest"

// observer is a server's connection for questions from the test. It is dialed when needed and dropped when it
// fails or its server stops; a command is never repeated. It counts what it sends, so that CommandStats can leave
// that out.
type observer struct {
	addr string

	mu   sync.Mutex
	conn *Conn
	sent map[string]int64 // by command and first argument, in lower case, since the last reset
}

func (o *observer) do(args ...string) (any, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn == nil {
		c, err := Dial(o.addr)
		if err != nil {
			return nil, err
		}
		o.conn = c
		if _, err := o.exchange("CLIENT", "SETNAME", observerName); err != nil {
			return nil, err
		}
	}
	return o.exchange(args...)
}

// exchange does one command on the open connection and closes it after a failure other than an error reply.
func (o *observer) exchange(args ...string) (any, error) {
	o.count(args)
	reply, err := o.conn.Do(args...)
	if err != nil && !isErrorReply(err) {
		_ = o.conn.Close()
		o.conn = nil
	}
	return reply, err
}

func (o *observer) count(args []string) {
	if o.sent == nil {
		o.sent = map[string]int64{}
	}
	o.sent[strings.ToLower(strings.Join(args[:min(2, len(args))], "|"))]++
}

// note counts a command of this package that goes over another connection.
func (o *observer) note(args ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count(args)
}

func (o *observer) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn != nil {
		_ = o.conn.Close()
		o.conn = nil
	}
	clear(o.sent) // a restarted server has counted nothing
}

// info reads one field of one section of INFO.
func (o *observer) info(section, field string) (string, error) {
	reply, err := o.do("INFO", section)
	if err != nil {
		return "", err
	}
	text, _ := reply.(string)
	value, ok := infoFields(text)[field]
	if !ok {
		return "", fmt.Errorf("INFO %s: no field %s", section, field)
	}
	return value, nil
}

// infoFields splits what INFO and CLUSTER INFO answer into fields.
func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func isErrorReply(err error) bool {
	_, ok := errors.AsType[Error](err)
	return ok
}

// Do sends one command over a connection that nobody else uses and returns the reply: string, int64, nil or []any.
// An error reply, or none within 10 s, ends the test.
func (s *Server) Do(t testing.TB, args ...string) any {
	t.Helper()
	reply, err := s.observer.do(args...)
	if err != nil {
		t.Fatalf("redis-server %s: %s: %v", s.Addr(), strings.Join(args, " "), err)
	}
	return reply
}

// Forget makes a replica forget keys, all of them if none is named, as if it had never heard of them.
func (s *Server) Forget(t testing.TB, keys ...string) {
	t.Helper()
	s.Do(t, "CONFIG", "SET", "replica-read-only", "no")
	if len(keys) == 0 {
		s.Do(t, "FLUSHALL")
		return
	}
	s.Do(t, append([]string{"DEL"}, keys...)...)
}

// Try is Do for callers that expect an error reply, or are not in the test's own goroutine.
func (s *Server) Try(args ...string) (any, error) { return s.observer.do(args...) }

// Int is Do for commands that answer an integer.
func (s *Server) Int(t testing.TB, args ...string) int64 {
	t.Helper()
	reply := s.Do(t, args...)
	n, ok := reply.(int64)
	if !ok {
		t.Fatalf("redis-server %s: %s: %T, not an integer: %v", s.Addr(), strings.Join(args, " "), reply, reply)
	}
	return n
}

// Str is Do for commands that answer a string; a nil reply is "".
func (s *Server) Str(t testing.TB, args ...string) string {
	t.Helper()
	reply := s.Do(t, args...)
	text, ok := reply.(string)
	if !ok && reply != nil {
		t.Fatalf("redis-server %s: %s: %T, not a string: %v", s.Addr(), strings.Join(args, " "), reply, reply)
	}
	return text
}

// Strs is Do for commands that answer an array of strings.
func (s *Server) Strs(t testing.TB, args ...string) []string {
	t.Helper()
	elems, _ := s.Do(t, args...).([]any)
	texts := make([]string, len(elems))
	for i, e := range elems {
		text, ok := e.(string)
		if !ok {
			t.Fatalf("redis-server %s: %s: element %d is a %T: %v", s.Addr(), strings.Join(args, " "), i, e, e)
		}
		texts[i] = text
	}
	return texts
}
