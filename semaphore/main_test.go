package semaphore_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
)

// server is an embedded one, so that the examples run anywhere.
var server *miniredis.Miniredis

func TestMain(m *testing.M) {
	var err error
	if server, err = miniredis.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// open is what a program does once, with the address of its own server.
func open() *holdfast.Session {
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, nil)
	if err != nil {
		panic(err)
	}
	return session
}
