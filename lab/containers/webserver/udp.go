package main

import (
	"fmt"
	"net"
	"time"
)

// answer answers every packet with a name.
func answer(packets net.PacketConn, name string) error {
	for {
		_, from, err := packets.ReadFrom(make([]byte, 1500))
		if err != nil {
			return err
		}
		if _, err := packets.WriteTo([]byte(name), from); err != nil {
			return err
		}
	}
}

// sendAll prints a line for each address: the answer to a packet, or an error.
func sendAll(addresses []string) error {
	for _, a := range addresses {
		text, err := send(a)
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Println(text)
	}
	return nil
}

func send(address string) (string, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("who?")); err != nil {
		return "", err
	}
	reply := make([]byte, 1500)
	n, err := conn.Read(reply)
	return string(reply[:n]), err
}
