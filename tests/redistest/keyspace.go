package redistest

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// Value is what one key holds.
type Value struct {
	Type    string // as TYPE says: string, hash, list, set, zset
	Content any    // string; map[string]string; []string in list order; []string sorted; map[string]float64 of scores
	Expires bool   // whether it has a TTL
}

// Keyspace returns everything that the server stores (database 0), for comparison as a whole. It reads key by key, so
// while others write, the result need not be a state that ever existed. A type that Value does not name ends the
// test.
func (s *Server) Keyspace(t testing.TB) map[string]Value {
	t.Helper()
	space := map[string]Value{}
	for _, key := range s.Strs(t, "KEYS", "*") {
		kind := s.Str(t, "TYPE", key)
		if kind == "none" {
			continue // gone since KEYS
		}
		space[key] = Value{Type: kind, Content: s.content(t, kind, key), Expires: s.Int(t, "PTTL", key) >= 0}
	}
	return space
}

// TTLs returns the time to live of each key that has one.
func (s *Server) TTLs(t testing.TB) map[string]time.Duration {
	t.Helper()
	ttls := map[string]time.Duration{}
	for _, key := range s.Strs(t, "KEYS", "*") {
		if ms := s.Int(t, "PTTL", key); ms >= 0 {
			ttls[key] = time.Duration(ms) * time.Millisecond
		}
	}
	return ttls
}

func (s *Server) content(t testing.TB, kind, key string) any {
	t.Helper()
	switch kind {
	case "string":
		return s.Str(t, "GET", key)
	case "list":
		return s.Strs(t, "LRANGE", key, "0", "-1")
	case "set":
		members := s.Strs(t, "SMEMBERS", key)
		slices.Sort(members)
		return members
	case "hash":
		fields := map[string]string{}
		for pair := range slices.Chunk(s.Strs(t, "HGETALL", key), 2) {
			fields[pair[0]] = pair[1]
		}
		return fields
	case "zset":
		scores := map[string]float64{}
		for pair := range slices.Chunk(s.Strs(t, "ZRANGE", key, "0", "-1", "WITHSCORES"), 2) {
			score, err := strconv.ParseFloat(pair[1], 64)
			if err != nil {
				t.Fatalf("score of %q in %q: %v", pair[0], key, err)
			}
			scores[pair[0]] = score
		}
		return scores
	}
	t.Fatalf("key %q: content of type %s cannot be shown", key, kind)
	return nil
}
