// What nats.go takes: URL WORKLOAD COUNT. Prints "cpu" and "wall" in microseconds per operation.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats.go:", err)
		os.Exit(1)
	}
}

func used() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

var data = []byte("0123456789abcdef")

func requests(connection *nats.Conn, count int) {
	for i := 0; i < count; i++ {
		_, err := connection.Request("echo", data, 5*time.Second)
		check(err)
	}
}

func main() {
	connection, err := nats.Connect(os.Args[1])
	check(err)
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	over, received := make(chan bool), 0
	if os.Args[2] == "receive" {
		subscription, err := connection.Subscribe("bench", func(*nats.Msg) {
			received++
			if received == count {
				over <- true
			}
		})
		check(err)
		check(subscription.SetPendingLimits(-1, -1))
		check(connection.Flush())
		fmt.Println("ready")
	}
	cpu, wall := used(), time.Now()
	switch os.Args[2] {
	case "publish":
		for i := 0; i < count; i++ {
			check(connection.Publish("bench", data))
		}
		check(connection.FlushTimeout(time.Minute))
	case "receive":
		<-over
	case "request":
		requests(connection, count)
	case "request100":
		var group sync.WaitGroup
		for i := 0; i < 100; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				requests(connection, count/100)
			}()
		}
		group.Wait()
	default:
		os.Exit(3)
	}
	fmt.Printf("cpu\t%f\n", float64(used()-cpu)/float64(count)/1e3)
	fmt.Printf("wall\t%f\n", float64(time.Since(wall))/float64(count)/1e3)
}
