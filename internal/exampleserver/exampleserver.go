// Package exampleserver has the examples of the packages run anywhere: on an embedded server.
package exampleserver

import (
	"fmt"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
)

var server *miniredis.Miniredis

// Main runs a package's tests and examples while there is a server.
func Main(m *testing.M) {
	var err error
	if server, err = miniredis.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// Open is what a program does once, with the address of its own server.
func Open() *holdfast.Session {
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, nil)
	if err != nil {
		panic(err)
	}
	return session
}
