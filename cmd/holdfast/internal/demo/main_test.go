package demo

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
)

// The workers of a scene that is played in a test are the test binary again.
func TestMain(m *testing.M) {
	if !slices.Equal(os.Args[1:], []string{"demo", "worker"}) {
		os.Exit(m.Run())
	}
	if err := work(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
