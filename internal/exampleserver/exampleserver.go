// Package exampleserver lets the examples of the packages run anywhere: on an embedded server.
package exampleserver

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/embedded"
)

var servers []*embedded.Server

// Main runs a package's tests and examples while there is a server; or several, that are independent.
func Main(m *testing.M, independent int) {
	code := 1
	defer func() { os.Exit(code) }()
	for range independent {
		server, err := embedded.Start()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		defer server.Close()
		servers = append(servers, server)
	}
	code = m.Run()
}

// Open does what a program does once with the address of its own server.
func Open() *holdfast.Session { return open(servers[0]) }

// Connect is what a program does for its own data on the same server.
func Connect() rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{servers[0].Addr()}, DisableCache: true, // which the embedded server does not know
	})
	if err != nil {
		panic(err)
	}
	return client
}

// OpenAll is the same for all servers.
func OpenAll() (sessions []*holdfast.Session) {
	for _, server := range servers {
		sessions = append(sessions, open(server))
	}
	return sessions
}

func open(server *embedded.Server) *holdfast.Session {
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, nil)
	if err != nil {
		panic(err)
	}
	return session
}
