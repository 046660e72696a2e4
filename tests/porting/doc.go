// Package porting has Java classes that use Redisson, ported line by line, and configurations of Redisson in Go. The
// Java and the YAML are in docs/redisson.md; the tests run the classes against a real server.
package porting
