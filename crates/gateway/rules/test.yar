// What tells that a scanner is at work: files that harm nobody and that every scanner knows.

rule EICAR_test_file
{
    meta:
        description = "The anti-malware test file of EICAR"
        reference = "https://www.eicar.org/download-anti-malware-testfile/"
    strings:
        $test = "X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
    condition:
        $test
}
