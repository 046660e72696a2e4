package redistest

import (
	"strconv"
	"strings"
	"testing"
)

// CommandStats counts the calls of each command since the server started or ResetStats: names in lower case, as in
// INFO commandstats ("evalsha", "client|setinfo"). Calls inside scripts are counted too. The package's own commands
// are left out, but not what an EVAL sent through Do calls inside.
func (s *Server) CommandStats(t testing.TB) map[string]int64 {
	t.Helper()
	if s.calls != nil {
		return s.calls()
	}
	stats := map[string]int64{}
	for line := range strings.Lines(s.Str(t, "INFO", "commandstats")) {
		name, values, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(values, ",")
		calls, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			t.Fatalf("INFO commandstats: %q: %v", line, err)
		}
		stats[name] = calls
	}
	s.observer.subtractOwn(stats)
	return stats
}

// ResetStats makes CommandStats count from zero.
func (s *Server) ResetStats(t testing.TB) {
	t.Helper()
	s.Do(t, "CONFIG", "RESETSTAT")
	s.observer.forgetOwn()
}

// CPU is how much processor time the server has used, in µs.
func (s *Server) CPU(t testing.TB) (micros float64) {
	t.Helper()
	for line := range strings.Lines(s.Str(t, "INFO", "cpu")) {
		for _, mode := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), mode); ok {
				seconds, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Fatalf("INFO cpu: %q: %v", line, err)
				}
				micros += seconds * 1e6
			}
		}
	}
	return micros
}

// subtractOwn takes the package's own commands out of what the server counted. The server reports subcommands by
// themselves, and does not yet count the INFO that it is answering.
func (o *observer) subtractOwn(stats map[string]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, n := range o.sent {
		if name == "info|commandstats" {
			n--
		}
		if command, _, ok := strings.Cut(name, "|"); ok && stats[name] == 0 {
			name = command
		}
		if stats[name] -= n; stats[name] <= 0 {
			delete(stats, name)
		}
	}
}

// forgetOwn starts the observer's own count over. CONFIG RESETSTAT is itself counted by the server, after its reset.
func (o *observer) forgetOwn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.sent)
	o.count([]string{"CONFIG", "RESETSTAT"})
}

// Connections counts the server's client connections, without those of this package, replicas and cluster links.
func (s *Server) Connections(t testing.TB) int {
	t.Helper()
	return len(s.ClientList(t))
}

// ClientList describes the connections that Connections counts: CLIENT LIST's fields by name, one map for each.
func (s *Server) ClientList(t testing.TB) []map[string]string {
	t.Helper()
	var clients []map[string]string
	for line := range strings.Lines(s.Str(t, "CLIENT", "LIST")) {
		fields := map[string]string{}
		for field := range strings.FieldsSeq(line) {
			if name, value, ok := strings.Cut(field, "="); ok {
				fields[name] = value
			}
		}
		isReplication := strings.ContainsAny(fields["flags"], "SM")
		if fields["id"] != "" && fields["name"] != observerName && !isReplication {
			clients = append(clients, fields)
		}
	}
	return clients
}
