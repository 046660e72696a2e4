// Package porting has Java classes that use Redisson, ported line by line. The Java text is in docs/redisson.md; the
// tests run this code against a real server.
package porting
