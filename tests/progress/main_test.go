package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const run = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"not of interest\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"stood still for 2s until 10:00:00\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"run","Package":"p","Test":"TestBad"}
{"Action":"run","Package":"p","Test":"TestBad/one"}
{"Action":"output","Package":"p","Test":"TestBad/one","Output":"=== RUN   TestBad/one\n"}
{"Action":"output","Package":"p","Test":"TestBad/one","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestBad/one"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestIdle","Output":"    a_test.go:2: no server\n"}
{"Action":"skip","Package":"p","Test":"TestIdle"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Output":"PASS\n"}
{"Action":"output","Package":"q","Output":"ok  \tq\t1.0s\n"}
{"Action":"pass","Package":"q"}
`

func TestEachRunIsAGoTestAndTheLastOfSeveralIsNice(t *testing.T) {
	for args, want := range map[string]string{
		"-race ./a":                  "go test -json -race ./a",
		"-race ./a -- ./b -- -v ./c": "go test -json -race ./a; go test -json ./b; nice -n 5 go test -json -v ./c",
	} {
		var all []string
		for _, words := range commands(strings.Fields(args)) {
			all = append(all, strings.Join(words, " "))
		}
		require.Equal(t, want, strings.Join(all, "; "), args)
	}
}

func TestFailuresAndSkipsAreShownWithWhatTheySaid(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	r.follow(lines(strings.NewReader(run)))
	require.Equal(t, `    0s  p stood still for 2s until 10:00:00
    0s  p TestBad/one
    a_test.go:1: wrong
    0s  p TestBad

    0s  p TestIdle
    a_test.go:2: no server
    0s  FAIL	p	1.0s
    0s  ok  	q	1.0s
`, out.String())
	require.Equal(t, []int{1, 2, 1}, []int{r.passed, r.failed, r.skipped})
}

func TestATestThatDoesNotEndIsShownWithWhatItSaid(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	r.follow(lines(strings.NewReader(`{"Action":"run","Package":"q","Test":"TestOfAnother"}
{"Action":"run","Package":"p","Test":"TestHangs"}
{"Action":"output","Package":"p","Test":"TestHangs","Output":"    a_test.go:1: wrong\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}
{"Action":"fail","Package":"p"}
`)))
	require.Equal(t, `    0s  p TestHangs
    a_test.go:1: wrong
it did not end
    0s  FAIL	p	1.0s
`, out.String())
	require.Equal(t, 1, r.failed)
}

func TestARunWithoutNewsSaysWhatIsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := newReport(&out)
		all := make(chan []byte)
		go func() {
			for _, name := range []string{"TestLong", "TestParent", "TestParent/long/er", "TestParent/waits"} {
				all <- []byte(`{"Action":"run","Package":"p","Test":"` + name + `"}`)
			}
			all <- []byte(`{"Action":"pause","Package":"p","Test":"TestParent/waits"}`)
			time.Sleep(beat + time.Second)
			close(all)
		}()
		r.follow(all)
		require.Equal(t, "   15s  running: TestLong (15s), TestParent/long/er (15s); 0 passed so far\n", out.String())
	})
}
