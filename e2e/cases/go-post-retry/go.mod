module server

go 1.26.0
