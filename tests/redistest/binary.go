package redistest

import (
	"fmt"
	"os"
	"os/exec"
)

// serverVariable names another server binary, for example valkey-server or an older redis-server.
const serverVariable = "HOLDFAST_REDIS_SERVER"

// RedisServerPath finds the server binary: the one that the environment variable HOLDFAST_REDIS_SERVER names,
// otherwise redis-server on PATH. The error says how to install it.
func RedisServerPath() (string, error) {
	name := os.Getenv(serverVariable)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("these tests need a Redis server, 6.2 or later: %w; "+
			"install it (Debian, Ubuntu: apt-get install redis-server; Fedora: dnf install redis; "+
			"macOS: brew install redis) or name the binary in %s", err, serverVariable)
	}
	return path, nil
}
