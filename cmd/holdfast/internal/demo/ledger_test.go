package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func written(numbers ...int) *ledger {
	l := newLedger(2)
	for i, n := range numbers {
		l.take(event{What: wrote, worker: 1 + i%2, Value: n})
	}
	return l
}

func TestAudit(t *testing.T) {
	for name, tt := range map[string]struct {
		written []int
		count   int
		want    string // of the error; empty if all is well
	}{
		"nothing":                    {nil, 0, ""},
		"each once":                  {[]int{1, 2, 3}, 3, ""},
		"told out of order":          {[]int{1, 3, 2}, 3, ""},
		"two read the same":          {[]int{1, 2, 2, 3}, 3, "1 lost updates: 4 writes, but the counter is 3"},
		"a late write of an old one": {[]int{1, 2, 3, 4, 2}, 2, "3 lost updates: 5 writes, but the counter is 2"},
		"late, and counted on":       {[]int{1, 2, 3, 2, 3, 4}, 4, "2 lost updates: 6 writes, but the counter is 4"},
		"written, and gone":          {[]int{1, 2, 3}, 2, "1 lost updates: 3 writes, but the counter is 2"},
		"nobody has told":            {[]int{1, 3}, 3, "nobody has told of writing 2, and the counter is 3"},
		"one lost, one not told":     {[]int{1, 3, 3}, 3, "1 lost updates: 3 writes, but the counter is 3"},
	} {
		t.Run(name, func(t *testing.T) {
			err := written(tt.written...).audit(tt.count)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	require.Zero(t, spreadOf(nil))
	var times []time.Duration
	for ms := 200; ms >= 0; ms-- {
		times = append(times, time.Duration(ms)*time.Millisecond)
	}
	require.Equal(t, spread{
		median: 100 * time.Millisecond, p95: 190 * time.Millisecond,
		p99: 198 * time.Millisecond, longest: 200 * time.Millisecond,
	}, spreadOf(times))
}

func TestHuman(t *testing.T) {
	require.Equal(t, "0.5 ms", human(512*time.Microsecond))
	require.Equal(t, "12 ms", human(12*time.Millisecond))
	require.Equal(t, "1.01 s", human(1010*time.Millisecond))
}
