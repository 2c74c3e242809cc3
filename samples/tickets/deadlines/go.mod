module deadlines

go 1.26
