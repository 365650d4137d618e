module program

go 1.26.0

require golang.org/x/net v0.33.0

require golang.org/x/text v0.21.0 // indirect
